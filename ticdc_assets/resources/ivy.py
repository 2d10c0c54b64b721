"""Download jars with the Ivy that Spark ships, from the repositories that its settings name."""

import subprocess
from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from ticdc_assets.errors import ConfigError
from ticdc_assets.resources.java import find_java

# What Delta and the stores' clients depend on and Spark already ships.
_EXCLUDES = (
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.hadoop:hadoop-client-api",
    "org.slf4j:slf4j-api",
    "org.lz4:lz4-java",
    "at.yawk.lz4:*",
    "org.xerial.snappy:snappy-java",
    "com.github.luben:zstd-jni",
    "com.google.code.findbugs:jsr305",
    "commons-logging:commons-logging",
    "org.scala-lang:scala-library",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
    "org.apache.parquet:*",
    "org.apache.logging.log4j:*",
    "com.fasterxml.jackson.core:*",
    "com.fasterxml.jackson.datatype:*",
    "org.roaringbitmap:*",
    "org.tukaani:xz",
)
# One folder per part of a jar's coordinate, which may itself contain any separator.
_PATTERN = "[organisation]/[artifact]/[revision](/[classifier])/jar.[ext]"


def download_jars(
    folder: Path, coordinates: Sequence[str], *, with_dependencies: bool
) -> dict[str, Path]:
    """Download jars named `group:name:revision` or `group:name:revision:classifier`.

    Return the path of every jar by its coordinate.
    """
    module = folder / "ivy.xml"
    module.write_text(_format_module(coordinates, with_dependencies), encoding="utf-8")
    pyspark = find_spec("pyspark")
    assert pyspark
    classpath = Path(str(pyspark.origin)).parent / "jars" / "*"
    command = [str(find_java()), "-cp", str(classpath), "org.apache.ivy.Main"]
    command += ["-ivy", str(module), "-confs", "default", "-types", "jar", "bundle", "-warn"]
    # A cache that stayed would be a second copy: those of a store have 600 MB.
    command += ["-cache", str(folder / "cache")]
    command += ["-retrieve", f"{folder}/{_PATTERN}"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    jars = {
        ":".join(path.relative_to(folder).parent.parts): path
        for path in sorted(folder.rglob("jar.jar"))
    }
    if process.returncode or not jars:
        lines = (line.strip(" :\t") for line in (process.stdout + process.stderr).splitlines())
        reason = "; ".join([line for line in lines if line][:5]) or "Ivy printed no error"
        raise ConfigError(f"download from Maven failed: {reason}", setting=", ".join(coordinates))
    return jars


def _format_module(coordinates: Sequence[str], with_dependencies: bool) -> str:
    """Describe a module that depends on the jars, as Ivy reads it."""
    excludes = "".join(
        f'<exclude org={quoteattr(group)} module={quoteattr(name)} matcher="glob"/>'
        for group, name in (exclude.split(":") for exclude in _EXCLUDES)
    )
    # One module may have several jars.
    classifiers: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for coordinate in coordinates:
        *module, classifier = (*coordinate.split(":"), "")[:4]
        classifiers[tuple(module)].append(classifier)
    dependencies = "".join(
        _format_dependency(module, found, with_dependencies)
        for module, found in classifiers.items()
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/extra">'
        '<info organisation="ticdc" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}{excludes}</dependencies></ivy-module>"
    )


def _format_dependency(
    module: tuple[str, ...], classifiers: Sequence[str], with_dependencies: bool
) -> str:
    group, name, revision = map(quoteattr, module)
    stated = {one: f" m:classifier={quoteattr(one)}" if one else "" for one in classifiers}
    artifacts = "".join(
        f'<artifact name={name} type="jar" ext="jar"{classifier}/>'
        for classifier in stated.values()
        # Without any, the module says which jar it has.
        if any(classifiers)
    )
    transitive = "true" if with_dependencies else "false"
    return (
        f"<dependency org={group} name={name} rev={revision}"
        f' conf="default->master,runtime" transitive="{transitive}">{artifacts}</dependency>'
    )
