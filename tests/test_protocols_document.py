"""docs/protocols.md names modules and tests that exist, for every document of TiCDC."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECTION = (ROOT / "docs" / "protocols.md").read_text().split("## What TiCDC's documents ask")[1]
ROW = re.compile(r"(?m)^\| ([A-Z][\w -]+) \| (.+?) \| `(.+?)` \| `(.+?)` \|$")
ROWS = ROW.findall(SECTION)


def test_every_row_and_every_document_is_read() -> None:
    # Besides the rows there are the head of the table and the line below it.
    assert len(ROWS) == len(re.findall(r"(?m)^\|", SECTION)) - 2
    documents = {document for document, *_ in ROWS}
    assert documents == {
        *("Simple", "Canal-JSON", "Open Protocol", "Storage sink", "Consumer guide"),
    }
    assert len({sentence for _, sentence, *_ in ROWS}) > 40


@pytest.mark.parametrize(("sentence", "module", "test"), [row[1:] for row in ROWS])
def test_a_sentence_is_kept_in_a_module_and_held_by_a_test(
    sentence: str, module: str, test: str
) -> None:
    assert (ROOT / module).is_file(), sentence
    path, _, name = test.partition("::")
    assert re.search(rf"(?m)^ *def {name}\(", (ROOT / path).read_text()), sentence
