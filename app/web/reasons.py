"""Why a file is not read, in the words of the page."""

from app.courses.survey import Reason
from app.web.texts import _


def reason_words(reason: Reason) -> str:
    """Returns a reason as a sentence without its end, in the language of the page."""
    match reason:
        case "pdf":
            return _("a PDF; only text files are read")
        case "picture":
            return _("a picture; shown in pages, not read by the tutor")
        case "not_text":
            return _("not a text file")
        case "not_utf8":
            return _("text, but not in UTF-8; save it again as UTF-8")
        case "too_large":
            return _("larger than 8 MiB")
        case "no_permission":
            return _("Hornbook has no permission to open it")
        case "unreadable":
            return _("it could not be opened")
        case "link":
            return _("a link that leads out of the folder or to nothing")
        case "device":
            return _("a device, a pipe or a socket")
        case "name":
            return _("its name cannot be used on every system")
