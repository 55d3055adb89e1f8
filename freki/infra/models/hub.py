"""Downloads from the Hugging Face hub: ONNX exports, and models to be exported."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, OfflineModeIsEnabled, XetDownloadError, XetError
from huggingface_hub.utils.tqdm import disable_progress_bars

from freki.infra.http.errors import is_transient
from freki.infra.models.descriptions import HubSource
from freki.infra.models.manifest import TOKENIZER
from freki.infra.models.progress import Progress
from freki.schemas.errors import Misconfigured, Unavailable

_OF_MODEL = (".json", ".safetensors", ".txt", ".model")


def download(source: HubSource, directory: Path, progress: Progress) -> None:
    """Download weights and tokenizer into a directory, under their paths in the repository.

    Raises Unavailable where the hub cannot be reached, Misconfigured where it refuses the files.
    """
    disable_progress_bars()
    files = (source.weights, TOKENIZER)
    for done, file in enumerate(files):
        progress(done, len(files), f"downloading {source.repository}/{file}")
        with _translated(f"cannot download {source.repository}/{file}"):
            hf_hub_download(source.repository, file, revision=source.commit, local_dir=directory)
    # Remove the metadata of the client for resuming downloads.
    shutil.rmtree(directory / ".cache", ignore_errors=True)
    progress(len(files), len(files), "done")


def fetch(repository: str, revision: str | None, directory: Path, progress: Progress) -> str:
    """Download configuration, tokenizer and weights of a model into a directory; return the commit.

    revision: branch, tag or commit; None: the default branch. Raises as `download` does.
    """
    disable_progress_bars()
    with _translated(f"cannot list {repository}"):
        found = HfApi().model_info(repository, revision=revision)
    files = [each.rfilename for each in found.siblings or () if _is_of_model(each.rfilename)]
    for done, file in enumerate(files):
        progress(done, len(files), f"downloading {repository}/{file}")
        with _translated(f"cannot download {repository}/{file}"):
            hf_hub_download(repository, file, revision=found.sha, local_dir=directory)
    return str(found.sha)


def _is_of_model(file: str) -> bool:
    """Return whether torch needs a file, or Freki reads it."""
    return file in {"README.md", "1_Pooling/config.json"} or ("/" not in file and file.endswith(_OF_MODEL))


@contextmanager
def _translated(action: str) -> Iterator[None]:
    """Translate errors of huggingface_hub, keeping the original as the cause."""
    try:
        yield
    except HfHubHTTPError as error:
        kind = Unavailable if is_transient(error.response.status_code) else Misconfigured
        raise kind(f"{action}: {error}") from error
    except OfflineModeIsEnabled as error:
        raise Misconfigured(f"{action}: unset HF_HUB_OFFLINE ({error})") from error
    # huggingface_hub 1.16 closes its client after a failed connection, and retries with it: a RuntimeError.
    except (EntryNotFoundError, XetError, XetDownloadError, httpx.HTTPError, OSError, RuntimeError) as error:
        raise Unavailable(f"{action}: {error}") from error
