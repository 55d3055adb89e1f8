"""Downloads of ONNX exports from the Hugging Face hub."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, OfflineModeIsEnabled, XetDownloadError, XetError
from huggingface_hub.utils.tqdm import disable_progress_bars

from freki.infra.http.errors import is_transient
from freki.infra.models.descriptions import HubSource
from freki.infra.models.manifest import TOKENIZER
from freki.infra.models.progress import Progress
from freki.schemas.errors import Misconfigured, Unavailable


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
