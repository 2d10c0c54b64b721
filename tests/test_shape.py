"""Files, functions and signatures keep to a size that a reader can hold; a reason excuses more."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = ("ticdc_assets", "bench", "tests")
MOST_LINES = 350
MOST_LINES_OF_A_FUNCTION = 60
MOST_PARAMETERS = 5
# On the lines above a function: why it is long, or takes many parameters.
LENGTH, PARAMETERS = "# Length:", "# Parameters:"


def folders() -> list[str]:
    files = (path for place in PLACES for path in (ROOT / place).rglob("*.py"))
    return sorted({str(path.parent.relative_to(ROOT)) for path in files})


def reasons(lines: list[str], node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The comment right above a function and its decorators."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    above = []
    for line in reversed(lines[: first - 1]):
        if not line.strip().startswith("#"):
            break
        above.append(line.strip())
    return "\n".join(above)


def offenders(path: Path) -> Iterator[str]:
    text = path.read_text()
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        yield f"{len(lines)} lines"
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        reason = reasons(lines, node)
        size = (node.end_lineno or node.lineno) - node.lineno + 1
        if size > MOST_LINES_OF_A_FUNCTION and LENGTH not in reason:
            yield f"{node.name}, line {node.lineno}: {size} lines"
        listed = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = len([argument for argument in listed if argument.arg not in ("self", "cls")])
        # A test names the fixtures that it needs.
        if (
            count > MOST_PARAMETERS
            and PARAMETERS not in reason
            and ROOT / "tests" not in path.parents
        ):
            yield f"{node.name}, line {node.lineno}: {count} parameters"


@pytest.mark.parametrize("folder", folders())
def test_files_and_their_functions_have_a_readable_size(folder: str) -> None:
    files = sorted((ROOT / folder).glob("*.py"))
    assert files
    assert {path.name: found for path in files if (found := list(offenders(path)))} == {}
