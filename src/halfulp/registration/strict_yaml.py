"""Reading YAML so that two readers cannot differ about it.

YAML 1.1 (PyYAML) and YAML 1.2 disagree about many plain scalars: ``010``, ``1:30``, ``1e-3``, ``no``. A value is
accepted only if both read it alike. Duplicate keys, anchors, tags, CRLF, a byte-order mark and text that is not NFC are
refused too, each in one line that names file, line, field, value and remedy.
"""

import re
import unicodedata
from pathlib import Path
from typing import Any

import yaml

from halfulp.errors import InputError

#: The core schema of YAML 1.2.2, section 10.3.2: which plain scalars are not strings.
_CORE_1_2 = [
    ("null", re.compile(r"(?:null|Null|NULL|~|)\Z")),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z")),
    ("int", re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")),
    ("float", re.compile(r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)\Z")),
    ("float", re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")),
]
#: More than this is not a registration.
MOST_CHARACTERS = 1_000_000
#: What this project writes: at most 18 digits before the point and one after it, no leading zeros, no hexadecimal.
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]+(?:e[-+][0-9]+)?)?\Z")


def read_text(path: Path) -> str:
    """Return a registration's text after checking its bytes.

    Raises:
        InputError: missing, not UTF-8, a byte-order mark, CR line endings, or not in Unicode normal form C.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; give the path of a registration") from error
    if raw.startswith(b"\xef\xbb\xbf"):
        raise InputError(f"{path}: line 1: begins with a byte-order mark; save it as UTF-8 without BOM")
    if b"\r" in raw:
        line = raw[: raw.index(b"\r")].count(b"\n") + 1
        raise InputError(f"{path}: line {line}: line endings are CRLF; convert the file to LF (git: eol=lf)")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}: line {line}: byte 0x{raw[error.start]:02x} is not UTF-8; save it as UTF-8"
        ) from error
    for number, content in enumerate(text.split("\n"), 1):
        if not unicodedata.is_normalized("NFC", content):
            raise InputError(f"{path}: line {number}: text is not in Unicode normal form C; normalise it to NFC")
    return text


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a mapping of strings, numbers, booleans, lists and mappings.

    Raises:
        InputError: anything that this module's description refuses, or that is not YAML.
    """
    text = read_text(path)
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"{path}: {len(text)} characters; a registration has at most {MOST_CHARACTERS}")
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        events = list(yaml.parse(text, Loader=yaml.SafeLoader))
    except RecursionError as error:
        raise InputError(f"{path}: nested too deeply; a registration has a few levels") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"{path}: {where}not YAML: {problem}; correct the syntax") from error
    for event in events:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InputError(f"{path}: line {_line(event)}: anchors and aliases are refused; write the value out")
        if isinstance(event, yaml.CollectionStartEvent | yaml.ScalarEvent) and event.tag is not None:
            raise InputError(f"{path}: line {_line(event)}: tag {event.tag} is refused; leave tags out")
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{path}: the document is not a mapping; write `field: value` lines")
    content = _value(node, path, "")
    assert isinstance(content, dict)
    return content


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _value(node: yaml.Node, path: Path, field: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _value(key_node, path, f"{field}.(key)" if field else "(key)")
            line = key_node.start_mark.line + 1
            name = f"{field}.{key}" if field else str(key)
            if not isinstance(key, str) or key == "<<":
                raise InputError(
                    f"{path}: line {line}: field {name}: key {key!r} is not a plain name; quote or rename it"
                )
            if key in mapping:
                raise InputError(f"{path}: line {line}: field {name}: duplicate key; keep one of the two")
            mapping[key] = _value(value_node, path, name)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, path, f"{field}[{index}]") for index, item in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)
    return _scalar(node, path, field)


def _scalar(node: yaml.ScalarNode, path: Path, field: str) -> Any:
    text = str(node.value)
    if node.style is not None:  # quoted or block: a string in every version
        return text
    where = f"{path}: line {node.start_mark.line + 1}: field {field}: value {text!r}"
    kind_1_1 = node.tag.rsplit(":", 1)[-1]
    kind_1_2 = next((kind for kind, pattern in _CORE_1_2 if pattern.match(text)), "str")
    if kind_1_1 != kind_1_2:
        raise InputError(f"{where}: YAML 1.1 reads a {kind_1_1}, YAML 1.2 a {kind_1_2}; {_remedy(kind_1_1, kind_1_2)}")
    if kind_1_2 == "str":
        return text
    if kind_1_2 in ("int", "float"):
        if kind_1_2 == "float" and text.lower().lstrip("+-") in (".inf", ".nan"):
            raise InputError(f"{where}: not finite; give a finite number")
        if not _PLAIN_NUMBER.match(text):
            raise InputError(f"{where}: YAML versions may differ on this number; write it like 10, 0.5 or 1.0e-3")
        return int(text) if kind_1_2 == "int" else float(text)
    return {"true": True, "false": False}.get(text.lower()) if kind_1_2 == "bool" else None


def _remedy(kind_1_1: str, kind_1_2: str) -> str:
    if "float" in (kind_1_1, kind_1_2):
        return "write floats like 1.0e-3, strings in quotes"
    if kind_1_1 == "bool":
        return "write true or false, strings in quotes"
    return "write numbers in plain decimal, strings in quotes"
