"""The SQL texts that the lake generates, and what Spark's own parser understands by them."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock, patch

from py4j.java_gateway import JavaObject, is_instance_of
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

# What a text is, by the name of its reader in `Parser`, and the text.
Text = tuple[str, str]
_KINDS = ("org.apache.spark.sql.types.DataType", "scala.collection.Iterable", "scala.Product")
# A whole plan or expression: the class of each node, and its arguments.
Parsed = Any


class Parser:
    """Parses texts as the session does that would run them."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        parser = spark._jsparkSession.sessionState().sqlParser()
        types = jvm.org.apache.spark.sql.types
        attribute = jvm.org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
        self._readers: dict[str, Callable[[str], Any]] = {
            "statement": parser.parsePlan,
            "expression": parser.parseExpression,
            "table": parser.parseMultipartIdentifier,
            "column": attribute.parseAttributeName,
            "columns": types.StructType.fromDDL,
            "type": types.DataType.fromDDL,
        }
        self._gateway = spark.sparkContext._gateway
        # What objects of a class are unfolded as, by its name.
        self._kinds: dict[str, str] = {}
        self._as_java = jvm.scala.jdk.javaapi.CollectionConverters.asJava

    def parse(self, text: Text) -> Parsed:
        kind, sql = text
        return self._unfold(self._readers[kind](sql))

    def _unfold(self, value: Any) -> Parsed:
        if not isinstance(value, JavaObject):
            return value
        name = value.getClass().getName()
        if name not in self._kinds:
            self._kinds[name] = next((kind for kind in _KINDS if self._is_a(value, kind)), "")
        match self._kinds[name]:
            case "org.apache.spark.sql.types.DataType":
                return json.loads(value.json())
            case "scala.collection.Iterable":
                return [self._unfold(each) for each in self._list(value.iterator())]
            case "scala.Product":
                return [name, *map(self._unfold, self._list(value.productIterator()))]
        return value.toString() if name.endswith("UTF8String") else name

    def _list(self, iterator: JavaObject) -> list[Any]:
        # One array takes fewer calls than an iterator.
        return list(self._as_java(iterator.toSeq()).toArray())

    def _is_a(self, value: JavaObject, name: str) -> bool:
        return bool(is_instance_of(self._gateway, value, name))


def substitute(parsed: Parsed, words: Mapping[str, str]) -> Parsed:
    """Replace words wherever they stand in what was parsed."""
    match parsed:
        case str():
            return re.sub("|".join(words), lambda found: words[found[0]], parsed)
        case list():
            return [substitute(part, words) for part in parsed]
        case dict():
            return {key: substitute(part, words) for key, part in parsed.items()}
    return parsed


class _Failure(AnalysisException):
    """An error of Spark with a condition."""

    def __init__(self, condition: str) -> None:
        super().__init__(condition)
        self._condition = condition

    def getCondition(self) -> str:
        return self._condition


class Recorder:
    """A session that runs nothing: it keeps the texts that it would have to run."""

    def __init__(self, columns: Mapping[str, str] | None = None) -> None:
        """Make a session with one table of these columns, or none."""
        self._has_table = columns is not None
        self._columns: list[Text] = []
        self.session: Any = MagicMock()
        self.session.sql.side_effect = self._run
        frame = self.session.read.format.return_value
        frame = frame.load.return_value
        frame.columns = list(columns or {})
        old = self.session.read.format.return_value.option.return_value.load.return_value
        old.limit.return_value.dtypes = list((columns or {}).items())

    def _run(self, text: str) -> Any:
        if text.startswith("DESCRIBE HISTORY") and not self._has_table:
            raise _Failure("PATH_NOT_FOUND")
        result = MagicMock()
        if text.startswith("DESCRIBE DETAIL"):
            result.select.return_value.collect.return_value = [[1, {}, []]]
            return result
        result.collect.return_value = [[3]]
        result.select.return_value.collect.return_value = [[3, "WRITE", None]]
        return result

    @property
    def texts(self) -> list[Text]:
        """Every text so far: those of the session first, then those of columns."""
        found = []
        for name, arguments, _ in self.session.mock_calls:
            found += _list_texts(name.rpartition(".")[2], arguments)
        return found + self._columns

    @contextmanager
    def columns(self) -> Iterator[None]:
        """Keep also the texts of column expressions made meanwhile."""

        def keep(kind: str, make: Callable[..., Column], at: int) -> Callable[..., Column]:
            def kept(*arguments: Any, **others: Any) -> Column:
                if isinstance(arguments[at], str):
                    self._columns.append((kind, arguments[at]))
                return make(*arguments, **others)

            return kept

        with (
            patch.object(F, "col", keep("column", F.col, 0)),
            patch.object(F, "expr", keep("expression", F.expr, 0)),
            patch.object(F, "from_json", keep("type", F.from_json, 1)),
            patch.object(ClassicColumn, "cast", keep("type", ClassicColumn.cast, 1)),
        ):
            yield


def _list_texts(method: str, arguments: tuple[Any, ...]) -> list[Text]:
    match method, arguments:
        case "sql", (text,):
            return [("statement", text)]
        case (("where" | "selectExpr"), texts):
            return [("expression", text) for text in texts if isinstance(text, str)]
        case "option", ("replaceWhere", text):
            return [("expression", text)]
        case "createDataFrame", (_, str(text)):
            return [("columns", text)]
        case "mergeInto", (text, _):
            return [("table", text)]
        case (("update" | "insert"), ({**columns},)):
            return [("expression", text) for text in columns]
    return []
