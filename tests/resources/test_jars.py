"""The jars of a session: which are loaded, and that they are those that the lock lists."""

import hashlib
import re
from pathlib import Path

import pyspark
import pytest
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from tests.resources.programs import executable
from ticdc_assets.errors import ConfigError
from ticdc_assets.resources import jars
from ticdc_assets.resources.spark import get_session
from ticdc_assets.resources.spark_settings import choose_settings


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of jars, and a lock for it: Delta's jar, and one of each store."""
    lock = tmp_path / "jars.lock"
    lock.write_text(
        f'[delta]\n"a:delta:1" = "{digest("delta")}"\n'
        f'[s3]\n"b:aws:2:shaded" = "{digest("aws")}"\n'
        f'[azure]\n"c:azure:3" = "{digest("azure")}"\n'
        f'[gcs]\n"d:gcs:4" = "{digest("gcs")}"\n'
    )
    monkeypatch.setattr(jars, "LOCK", lock)
    folder = tmp_path / "some jars"
    monkeypatch.setenv(jars.FOLDER, str(folder))
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_session_loads_what_its_lake_needs_and_the_lock_lists(folder: Path) -> None:
    folder.mkdir()
    (folder / "a_delta-1.jar").write_text("delta")
    (folder / "b_aws-2-shaded.jar").write_text("aws")
    (folder / "unlisted.jar").write_text("anything")
    assert [path.name for path in jars.find_jars()] == ["a_delta-1.jar"]
    assert [path.name for path in jars.find_jars("s3")] == ["a_delta-1.jar", "b_aws-2-shaded.jar"]


@pytest.mark.parametrize(
    ("lake", "lacking", "command"),
    [
        ("/lake", "a_delta-1.jar", "ticdc-assets setup`"),
        ("s3a://b/lake", "b_aws-2-shaded.jar", "ticdc-assets setup s3`"),
        ("s3://b/lake", "b_aws-2-shaded.jar", "ticdc-assets setup s3`"),
        ("abfss://b@a/lake", "c_azure-3.jar", "ticdc-assets setup azure`"),
        ("gs://b/lake", "d_gcs-4.jar", "ticdc-assets setup gcs`"),
    ],
)
def test_a_missing_or_altered_jar_is_an_error_that_says_how_to_get_it(
    folder: Path, lake: str, lacking: str, command: str
) -> None:
    folder.mkdir()
    for name in ("a_delta-1.jar", "b_aws-2-shaded.jar", "c_azure-3.jar", "d_gcs-4.jar"):
        (folder / name).write_text(re.split("[_-]", name)[1])
    (folder / lacking).write_text("another")
    with pytest.raises(ConfigError, match=f"{lacking} is not the jar that jars.lock .*{command}"):
        get_session(lake, master="local[1]")
    (folder / lacking).unlink()
    with pytest.raises(ConfigError, match=f"TICDC_SPARK_JARS: there is no .*{lacking}: `{command}"):
        get_session(lake, master="local[1]")


def test_spark_uses_the_s3_server_of_the_environment_unless_the_site_names_one(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    (folder / "a_delta-1.jar").write_text("delta")
    (folder / "b_aws-2-shaded.jar").write_text("aws")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    name = "spark.hadoop.fs.s3a.endpoint"
    assert name not in choose_settings("local[1]", "s3://b/lake")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://h:9000")
    for uri in ("s3://b/lake", "s3a://b/lake"):
        assert choose_settings("local[1]", uri)[name] == "http://h:9000"
    assert name not in choose_settings("local[1]", "/lake")
    site = tmp_path / "spark-defaults.conf"
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for line, names_one in (("endpoint  h", 1), ("bucket.b.endpoint=h", 1), ("threads.max 9", 0)):
        site.write_text(f"# of the site\nspark.hadoop.fs.s3a.{line}\n")
        assert (name in choose_settings("local[1]", "s3a://b/lake")) is not bool(names_one)


# Replaces Java with Ivy: writes what the file named `….serves` holds for each jar it needs, and a
# file into its cache, which is in the home folder by default.
IVY = """
[ "$1" = -version ] && { echo 'openjdk version "17"' >&2; exit 0; }
for word; do
  [ "$last" = -ivy ] && module=$word
  [ "$last" = -cache ] && cache=$word
  [ "$last" = -retrieve ] && place=${word%%/\\[*}
  last=$word
done
mkdir -p "${cache:-$HOME/.ivy2/cache}" && touch "${cache:-$HOME/.ivy2/cache}/kept"
[ -s "$0.serves" ] || { echo ':: UNRESOLVED DEPENDENCIES ::'; exit 1; }
grep -q 'org="a" name="delta" rev="1"' "$module" && mkdir -p "$place/a/delta/1" &&
  cp "$0.serves" "$place/a/delta/1/jar.jar"
grep -q 'm:classifier="shaded"' "$module" && mkdir -p "$place/b/aws/2/shaded" &&
  cp "$0.serves" "$place/b/aws/2/shaded/jar.jar"
true
"""


def test_jars_are_downloaded_once_and_only_genuine_ones_are_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = executable(tmp_path / "java" / "bin" / "java", IVY)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    serves = Path(f"{java}.serves")

    with pytest.raises(ConfigError, match=r"a:delta:1: download from Maven failed: .*UNRESOLVED"):
        jars.fetch_jars(folder, jars.read_lock())
    serves.write_text("forged")
    with pytest.raises(ConfigError, match="a:delta:1: what was downloaded is not the jar"):
        jars.fetch_jars(folder, jars.read_lock())
    assert names(folder) == []

    serves.write_text("delta")
    assert jars.fetch_jars(folder, jars.read_lock()) == ["a:delta:1"]
    assert jars.fetch_jars(folder, jars.read_lock()) == []
    assert names(folder) == ["a_delta-1.jar"]

    serves.write_text("aws")
    assert jars.fetch_jars(folder, jars.read_lock("s3")) == ["b:aws:2:shaded"]
    (folder / "b_aws-2-shaded.jar").write_text("altered")
    assert jars.fetch_jars(folder, jars.read_lock("s3")) == ["b:aws:2:shaded"]
    assert [path.read_text() for path in jars.find_jars("s3")] == ["delta", "aws"]
    # Nothing else is left, as large as it may be.
    assert names(folder) == ["a_delta-1.jar", "b_aws-2-shaded.jar"]
    assert not home.exists()


def test_the_lock_fits_the_installed_delta_and_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, str] = {}

    def record(builder: SparkSession.Builder, name: str, value: str) -> SparkSession.Builder:
        settings[name] = value
        return builder

    monkeypatch.setattr(SparkSession.Builder, "config", record)
    configure_spark_with_delta_pip(SparkSession.Builder())
    assert settings == {"spark.jars.packages": jars.DELTA}
    locked = {store: jars.read_lock(store) for store in (None, *jars.STORES)}
    assert jars.DELTA in {jar.coordinate for jar in locked[None]}
    shipped = Path(pyspark.__file__).parent / "jars"
    (hadoop,) = shipped.glob("hadoop-client-api-*.jar")
    number = hadoop.stem.removeprefix("hadoop-client-api-")
    coordinates = {jar.coordinate for found in locked.values() for jar in found}
    assert {f"org.apache.hadoop:hadoop-{one}:{number}" for one in ("aws", "azure")} <= coordinates
    for found in (*locked.values(), *map(jars.read_test_lock, jars.FOR_TESTS)):
        assert len({jar.file_name for jar in found}) == len(found)
        assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jar in found)
