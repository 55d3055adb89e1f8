"""Read the settings, and describe how to correct wrong ones."""

from collections.abc import Sequence
from pathlib import Path
from tomllib import TOMLDecodeError

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsConfigDict

from freki.infra.settings.environment import AMBIGUOUS, UNKNOWN
from freki.infra.settings.names import Names, has_ambiguous_key, nearest
from freki.infra.settings.root import Settings
from freki.infra.settings.section import SECRET_TWICE, SECRET_UNUSABLE, secret_of
from freki.schemas.errors import Misconfigured

_LIST = "it should be a list"
_TABLE = "it should be a table"
_OF_JSON = {"tuple_type": _LIST, "dict_type": _TABLE, "mapping_type": _TABLE, "model_type": _TABLE}
"""What a value should be, by types of pydantic errors, which name the types of Python."""
_PREFIX = str(Settings.model_config["env_prefix"])
FILE_NAME = str(Settings.model_config["toml_file"])


class WrongSettings(Misconfigured):
    """Invalid settings; `problems` has one line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def read_settings(file: Path | None = None) -> Settings:
    """Read the environment and `freki.toml`, or another file in its place. Raises WrongSettings."""
    name = FILE_NAME if file is None else str(file)
    if Path(name).is_dir():
        # It would be passed over. Docker makes one where the file that it should mount is missing.
        raise WrongSettings([f"{Path(name).absolute()} is a directory; put the file in its place, or remove it"])
    try:
        return Settings() if file is None else _with_file(file)()
    except ValidationError as error:
        # Values stay out of messages: some are secrets.
        raise WrongSettings([_problem(each) for each in error.errors(include_input=False)]) from None
    except TOMLDecodeError as error:
        raise WrongSettings([f"{name}: {error}; correct it"]) from error
    except UnicodeDecodeError as error:
        raise WrongSettings([f"{name} is not UTF-8 at byte {error.start}; save it as UTF-8"]) from error
    except OSError as error:
        raise WrongSettings([f"{Path(name).absolute()} cannot be read: {error.strerror}; correct it"]) from error


def _with_file(file: Path) -> type[Settings]:
    """Return the same settings, read from another file."""

    class OfFile(Settings):
        model_config = SettingsConfigDict(toml_file=file)

    return OfFile


def _problem(error: ErrorDetails) -> str:
    path = tuple(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        return _unknown(path)
    if error["type"] == "value_error":
        # Raised by our own checks of contradicting settings: the message names them and the fix.
        return f"{error['ctx']['error']}; in the environment or in {FILE_NAME}"
    if error["type"] == SECRET_TWICE:
        file = error["ctx"]["setting"]
        both = f"{_variable((*path, secret_of(file)))} and {_variable((*path, file))}"
        return (
            f"{both} are both set, and a secret comes from one place: leave one out, "
            f"in the environment or in {FILE_NAME}"
        )
    if error["type"] == SECRET_UNUSABLE:
        path = (*path, error["ctx"]["setting"])
    kind = _OF_JSON.get(error["type"])
    how = f"{kind}; correct it in the environment as JSON" if kind else f"{error['msg']}; correct it in the environment"
    return f"{_variable(path)}: {how} or in {FILE_NAME}"


def _unknown(path: Names) -> str:
    name = path[-1]
    if len(path) == 1 and name.startswith(AMBIGUOUS):
        return _ambiguous(name.removeprefix(AMBIGUOUS))
    if len(path) == 1 and name.startswith(UNKNOWN):
        variable = name.removeprefix(UNKNOWN)
        wrong, like = variable, nearest(tuple(variable[len(_PREFIX) :].split("__")), Settings)
        meant = f"did you mean {_variable(like)}?" if like else ""
    else:
        # In the file, or in a section that the environment has as JSON.
        wrong, like = f"{_variable(path)}, or {'.'.join(path)} in {FILE_NAME}", nearest(path, Settings)
        meant = f"did you mean {'.'.join(like)}?" if like else ""
    return f"{wrong}: there is no such setting; {meant or 'correct it or leave it out: docs/settings.md lists all'}"


def _ambiguous(variable: str) -> str:
    path = variable[len(_PREFIX) :].split("__")
    at = next(number for number in range(len(path)) if has_ambiguous_key(Settings, path[: number + 1]))
    table, key = _variable(tuple(path[:at])), path[at]
    return (
        f"{variable}: names of variables have no case, and that of {key!r} counts, so it may mean {key!r} or "
        f"{key.lower()!r}: write the table as JSON, {table}='{{\"{key}\": …}}', or in {FILE_NAME}"
    )


def _variable(path: Names) -> str:
    return _PREFIX + "__".join(path).upper()
