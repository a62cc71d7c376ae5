"""Loading collections: one error path for every reader of a ``defs.yaml``.

The terminal, the code location and ``dg check yaml`` all come through :func:`load_collection`, so a mistake is
described the same way everywhere: the file, the field, what is wrong and what to do.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Hashable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from extraction_core.collection import NAME_PATTERN, Collection, CollectionFile
from extraction_core.errors import ConfigurationError
from extraction_core.output_schema import invalid_schema_reason, provider_schema
from resources.parsing.ocr import ocr_data_from
from resources.parsing.reducto_access import reducto_access_from

log = logging.getLogger(__name__)

DEFS_ROOT = Path(__file__).parent / "defs"
DEFS_NAME = "defs.yaml"
MODE_VARIABLE = "EXTRACTION_MODE"
COMPONENT_TYPE = "extraction_assets.components.DocumentCollection"


def load_collections(root: Path = DEFS_ROOT) -> list[Collection]:
    """Load every collection below a folder, by name.

    Raises:
        ConfigurationError: the first mistake found, or two collections of one name.
    """
    found: dict[str, Collection] = {}
    for file in sorted(root.rglob(DEFS_NAME)):
        if not _is_collection(file):
            continue
        collection = load_collection(file)
        if collection.name in found:
            raise ConfigurationError(
                str(file),
                None,
                f"the collection {collection.name!r} is also defined in {found[collection.name].defs_file}.",
                "Rename one of the two folders.",
            )
        found[collection.name] = collection
    return [found[name] for name in sorted(found)]


def chosen_collections(only: str | None) -> list[Collection]:
    """Return the project's collections, or the one that a command line names.

    Raises:
        ConfigurationError: there is none of that name, or one of them has a mistake.
    """
    collections = load_collections()
    chosen = [collection for collection in collections if only in (None, collection.name)]
    if not chosen:
        names = ", ".join(collection.name for collection in collections) or "none"
        raise ConfigurationError(
            "--collection", None, f"there is no collection {only!r}.", f"The collections are: {names}."
        )
    return chosen


def load_collection(file: Path) -> Collection:
    """Load one collection with the files it names.

    Raises:
        ConfigurationError: names the file, the field, the problem and the remedy.
    """
    name = file.parent.name
    if not NAME_PATTERN.fullmatch(name):
        raise ConfigurationError(
            str(file),
            None,
            f"the folder {name!r} cannot name a collection.",
            "Use lower-case letters, digits and _, beginning with a letter, at most 40.",
        )
    settings = _settings(file, _with_mode_of_environment(_read_yaml(file).get("attributes")))
    _check_way_for_scans(file, settings)
    collection = Collection(
        name=name,
        settings=settings,
        source=_source(file, settings.source),
        schema=_schema(file, settings.schema_),
        instructions=_text(file, "instructions", settings.instructions),
        defs_file=str(file),
    )
    obstacles = provider_schema(collection.schema).obstacles
    if obstacles:
        log.warning(
            "%s: schema: the provider cannot enforce it (%s), so it stands in the prompt alone; "
            "answers are validated in full.",
            file,
            "; ".join(obstacles),
        )
    return collection


class _StrictLoader(yaml.SafeLoader):
    """YAML without silent surprises: a key that stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # the constructor below says so, with the line
            if key in seen:
                message = f"the key {key!r} stands twice"
                raise yaml.constructor.ConstructorError(None, None, message, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _is_collection(file: Path) -> bool:
    """Tell whether a file is ours: other components may live beside. One without a type is ours, to be reported."""
    return _read_yaml(file).get("type") in (COMPONENT_TYPE, None)


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else None
        raise ConfigurationError(str(file), line, f"{error.problem}.", "Correct the YAML.") from None
    except yaml.reader.ReaderError as error:
        raise ConfigurationError(
            str(file), f"position {error.position}", f"{error.reason}.", "Remove the control character."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            str(file), None, f"cannot be read: {error}.", "Make it a readable UTF-8 file."
        ) from None
    if not isinstance(content, dict):
        raise ConfigurationError(str(file), None, "is not a mapping.", "Give it `type` and `attributes`.")
    return cast("dict[str, Any]", content)


def _with_mode_of_environment(attributes: object) -> object:
    """Let the environment choose the mode of every collection: for a trial, without touching any file."""
    mode = os.environ.get(MODE_VARIABLE)
    return {**attributes, "mode": mode} if mode and isinstance(attributes, dict) else attributes


def _settings(file: Path, attributes: object) -> CollectionFile:
    if not isinstance(attributes, dict):
        raise ConfigurationError(str(file), "attributes", "is missing or not a mapping.", "Add at least `source`.")
    try:
        return CollectionFile.model_validate(attributes)
    except ValidationError as error:
        first = error.errors()[0]
        field = "attributes." + ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(str(file), field, f"{first['msg']}.", _remedy(first["type"], first["loc"])) from None


def _check_way_for_scans(file: Path, settings: CollectionFile) -> None:
    """Refuse a way for scans that this machine does not have, before any document has to fail by it."""
    try:
        if settings.scans == "ocr":
            ocr_data_from()
        if settings.scans == "reducto":
            reducto_access_from()
    except ConfigurationError as missing:
        problem = f"{settings.scans} is not set up: {missing.where} {missing.problem}"
        raise ConfigurationError(str(file), "attributes.scans", problem, missing.remedy) from None
    if settings.scans == "reducto" and find_spec("reducto") is None:
        problem = "the package reductoai is not installed."
        remedy = "Install the extra: pip install 'extraction-assets[reducto]'."
        raise ConfigurationError(str(file), "attributes.scans", problem, remedy)


def _remedy(kind: str, loc: tuple[int | str, ...]) -> str:
    """Return the remedy for a field; a mistake inside of it, such as in a grouping, is answered with what it takes."""
    name, inside = str(loc[0]), len(loc) > 1
    if kind == "extra_forbidden" and not inside:
        known = ", ".join(sorted(model.alias or key for key, model in CollectionFile.model_fields.items()))
        return f"Remove it or correct its name; the fields are {known}."
    if name == "mode":
        return "Use `mode: realtime` or `mode: batch`."
    if kind == "missing" and not inside:
        return f"Add `{name}`."
    described = next((m.description for k, m in CollectionFile.model_fields.items() if name in (k, m.alias)), None)
    return f"Expected: {described}" if described else "Correct the value."


def _source(file: Path, source: str) -> str:
    """Return an absolute path or the URL as it is."""
    if "://" in source:
        return source
    folder = (file.parent / Path(source).expanduser()).resolve()
    if not folder.is_dir():
        raise ConfigurationError(
            str(file), "attributes.source", f"{folder} is not a folder.", "Create it, or correct the path."
        )
    return str(folder)


def _schema(file: Path, name: str) -> dict[str, Any]:
    text = _text(file, "schema", name)
    try:
        schema = json.loads(text, object_pairs_hook=_unique_keys)
    except ValueError as error:
        raise ConfigurationError(str(file.parent / name), None, f"is not JSON: {error}.", "Correct the file.") from None
    if problem := invalid_schema_reason(schema):
        raise ConfigurationError(
            str(file.parent / name), None, f"is not valid JSON Schema 2020-12: {problem}.", "Correct the schema."
        )
    return cast("dict[str, Any]", schema)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            msg = f"the key {key!r} stands twice in one object"
            raise ValueError(msg)
        made[key] = value
    return made


def _text(file: Path, field: str, name: str) -> str:
    path = file.parent / name
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(
            str(file), f"attributes.{field}", f"{path} does not exist.", "Create the file, or correct the name."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            str(file), f"attributes.{field}", f"{path} cannot be read: {error}.", "Make it a readable UTF-8 file."
        ) from None
