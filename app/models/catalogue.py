"""Which models there are: a name, as given to ``--model``, becomes a model."""

from app.models.offline import OfflineModel
from app.models.script import load_script
from app.models.unavailable import ModelUnavailable
from app.protocol.model import Model

__all__ = ["ModelUnavailable", "open_model"]

_SCRIPT = "script:"
_FORMS = "Use offline (the offline tutor) or script:FILE (a scripted model from a JSON file)."


def open_model(name: str) -> Model:
    """Returns the model that ``name`` stands for: "offline" or "script:FILE".

    Raises ModelUnavailable when the name has neither form, or the file cannot be read or is not a script.
    """
    wanted = name.strip()
    if wanted == "offline":
        return OfflineModel()
    if wanted.startswith(_SCRIPT) and wanted != _SCRIPT:
        return load_script(wanted.removeprefix(_SCRIPT).strip())
    raise ModelUnavailable(f"There is no model {name!r}. {_FORMS}")
