"""The tools that work on the workspace, ready for a run."""

from app.protocol.tools import ToolDefinition
from app.tools.files import list_files_tool, read_file_tool
from app.tools.notes import write_note_tool
from app.tools.search import search_files_tool
from app.tools.truncate import MAX_BYTES
from app.tools.workspace import Workspace


def workspace_tools(workspace: Workspace, *, max_bytes: int = MAX_BYTES) -> list[ToolDefinition]:
    """Returns list_files, read_file, search_files and write_note, bound to ``workspace``.

    A result has at most ``max_bytes`` of UTF-8; ``limit_for_window`` in truncate.py gives it for a model.
    """
    return [
        list_files_tool(workspace, max_bytes),
        read_file_tool(workspace, max_bytes),
        search_files_tool(workspace, max_bytes),
        write_note_tool(workspace),
    ]
