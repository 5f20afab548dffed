"""The offline tutor's sentences, each in English and in Chinese. Names in braces are filled in."""

import re

from app.models.offline_intents import Language

_EXAMPLES_EN = """- `list files`, or `list files in <folder>`
- `read README.md`, and `more` to read on
- `search for leaf`
- `write a note about the loop`
- `how do you work`"""
_EXAMPLES_ZH = """- `列出工作区文件`，或 `列出 <文件夹> 里的文件`
- `读 README.md`，用 `继续` 往下读
- `搜索 叶子`
- `写一个关于循环的笔记`
- `你是怎么工作的`"""

SENTENCES: dict[str, tuple[str, str]] = {
    # Before a tool is called.
    "listing": ("Looking at what is in {place}.", "先看看{place}里有什么。"),
    "reading": ("Reading {names}.", "正在读 {names}。"),
    "reading_on": ("Reading on in {names}, from line {line}.", "接着读 {names}，从第 {line} 行开始。"),
    "looking_up": ("Looking for a file with the name “{name}”.", "先找一找名字像“{name}”的文件。"),
    "searching": ("Searching the files for “{query}”.", "在文件里搜索“{query}”。"),
    "explaining": (
        "First a look whether the workspace has a lesson about it.",
        "先看看工作区里有没有这方面的课程。",
    ),
    "gathering": (
        "Nothing about “{query}” has been read here yet, so the files are searched first.",
        "这里还没有读过与“{query}”有关的内容，先在文件里搜索。",
    ),
    "writing": ("Writing the note “{name}”.", "正在写笔记“{name}”。"),
    # A listing.
    "workspace": ("the workspace", "工作区"),
    "folder": ("the folder {name}", "文件夹 {name} "),
    "holds": ("{Place} holds {folders} and {files}.", "{Place}里有 {folders}、{files}。"),
    "holds_one": ("{Place} holds {things}.", "{Place}里有 {things}。"),
    "empty": ("{Place} is empty.", "{Place}里什么也没有。"),
    "folders_are": ("Folders: {names}", "文件夹：{names}"),
    "files_are": ("Files: {names}", "文件：{names}"),
    "and_more": ("and {count} more", "另有 {count} 个"),
    "list_next": ("To open one: `read {name}`.", "想打开一个，可以说：`读 {name}`。"),
    "list_next_folder": (
        "To look into a folder: `list files in {name}`.",
        "想看文件夹里面，可以说：`列出 {name} 里的文件`。",
    ),
    # A file.
    "file_whole": ("{path} has {lines}; all of it was read.", "{path} 共 {lines}，已全部读完。"),
    "file_part": (
        "{path}: lines {first} to {last}{of} were read.",
        "{path}：已读第 {first} 到 {last} 行{of}。",
    ),
    "file_of": (" (of {total})", "（共 {total} 行）"),
    "file_empty": ("{path} is empty.", "{path} 是空的。"),
    "headings": ("Its headings:", "其中的标题："),
    "begins": ("It begins:", "开头是："),
    "goes_on": ("This part begins:", "这一部分的开头是："),
    "more_there": (
        "There is more from line {line} on: say `more`.",
        "从第 {line} 行起还有内容：说 `继续` 就往下读。",
    ),
    "file_end": ("That is the end of the file.", "文件到此结束。"),
    "nothing_to_go_on": (
        "Nothing that was begun here is left to go on with: what was read was read to its end.",
        "这里没有可以继续的内容：读过的文件都已读到结尾。",
    ),
    "no_title": (
        "No file in the workspace has a name like “{name}”.",
        "工作区里没有名字像“{name}”的文件。",
    ),
    "files_there": ("These are there: {names}", "现有的文件：{names}"),
    "many_titles": (
        "{count} files have a name like “{name}”. Which one?",
        "名字像“{name}”的文件有 {count} 个。要读哪一个？",
    ),
    # A search.
    "matches": ("“{query}” stands in {places}, in {files}:", "“{query}”出现在 {files}里，共 {places}："),
    "no_matches": ("“{query}” stands in no file here.", "这里没有文件包含“{query}”。"),
    "no_matches_next": (
        "Another word may do better, or `list files` to see what is there. What can be asked for:",
        "可以换一个词，或者用 `列出工作区文件` 看看有什么。可以这样说：",
    ),
    "search_next": ("To see it in its place: `read {place}`.", "想看上下文，可以说：`读 {place}`。"),
    "tool_adds": ("The tool adds: {remark}", "工具还说明：{remark}"),
    # A note.
    "note_written": ("The note was written to {path}.", "笔记已写到 {path}。"),
    "note_from": ("It holds passages from {names}, each with its line.", "内容摘自 {names}，每条注明行号。"),
    "note_no_topic": (
        "What should the note be about? Nothing has been read here yet. For example: "
        "`write a note about the loop`, or `read README.md` first.",
        "笔记要写什么？这里还没有读过任何文件。可以说：`写一个关于循环的笔记`，或者先 `读 README.md`。",
    ),
    "note_nothing": (
        "Nothing in the files here speaks of “{topic}”, so no note was written: it would be invented. "
        "`list files` shows what there is to read.",
        "这里的文件没有提到“{topic}”，所以没有写笔记，否则就是编造。用 `列出工作区文件` 看看有什么可读。",
    ),
    "note_head": (
        "Passages about “{topic}”, chosen by rules (no AI), each with its place.",
        "关于“{topic}”的摘录，由规则挑选（没有 AI），每条注明出处。",
    ),
    "note_head_all": (
        "What was read in this conversation, chosen by rules (no AI), each with its place.",
        "这次对话里读过的内容，由规则挑选（没有 AI），每条注明出处。",
    ),
    "note_body_none": (
        "No file in the workspace speaks of this yet.",
        "工作区里还没有文件提到这个内容。",
    ),
    "note_title_all": ("What was read", "读过的内容"),
    # What went wrong.
    "missing_tool": (
        "This needs the tool {tool}, which is not available here. Nothing was done.",
        "这需要工具 {tool}，但它在这里不可用。没有执行任何操作。",
    ),
    "failed": ("{call} did not work: {what}", "{call} 没有成功：{what}"),
    "reason": ("The reason given: {reason}", "给出的原因：{reason}"),
    "enough": (
        "The tools have been asked {count} times for this without an end, so it stops here.",
        "为这件事已经调用工具 {count} 次，仍没有结果，就此停下。",
    ),
    # The tutor itself.
    "explain": (
        "This tutor is a set of rules. There is no AI in it and nothing is sent to any server; with a real "
        "model in its place, the program around it works in the same way.\n\n"
        "That program is an agent, and its heart is a loop:\n\n"
        "1. Your message is added to the conversation.\n"
        "2. The whole conversation and the list of tools go to the model. Here, rules take its place.\n"
        "3. The model answers with text, or asks for a tool: a name and arguments, for example "
        "`read_file` with a path.\n"
        "4. Before the tool runs, rules of permission allow the call, block it or rewrite it.\n"
        "5. The result joins the conversation, and the loop goes back to step 2.\n"
        "6. When the model asks for no more tools, its answer is complete and the loop rests.",
        "这位导师是一组规则，里面没有 AI，也不会把任何内容发送到服务器；"
        "换上真正的模型，外面的程序照样工作。\n\n"
        "外面的程序就是一个智能体，它的核心是一个循环：\n\n"
        "1. 你的消息加入对话。\n"
        "2. 整个对话和工具清单交给模型。在这里，由规则代替模型。\n"
        "3. 模型用文字回答，或者要求使用一个工具：工具名加参数，例如 `read_file` 加一个路径。\n"
        "4. 工具运行之前，权限规则决定放行、阻止或改写这次调用。\n"
        "5. 工具的结果加入对话，循环回到第 2 步。\n"
        "6. 模型不再要求工具时，回答就完成了，循环停下。",
    ),
    "explain_seen": (
        "You can watch it: for this answer the rules asked for {calls}, got the result, and then wrote this.",
        "你可以看到这个过程：为了这个回答，规则先要求使用 {calls}，得到结果，然后才写出这段话。",
    ),
    "explain_more": ("The workspace says more about it: {places}", "工作区里还有讲解：{places}"),
    "loop_word": ("loop", "循环"),
    "help_asked": (
        "This is the offline tutor: rules, no AI. It works on the workspace's files. What can be asked for:",
        "这是离线导师：只有规则，没有 AI。它处理工作区里的文件。可以这样说：",
    ),
    "help_lost": (
        "The offline tutor works by rules, no AI, and no rule fits this message. What can be asked for:",
        "离线导师只按规则工作，没有 AI，而这句话没有对应的规则。可以这样说：",
    ),
    "examples": (_EXAMPLES_EN, _EXAMPLES_ZH),
}

COUNTED: dict[str, tuple[str, str, str]] = {
    "folder": ("{n} folder", "{n} folders", "{n} 个文件夹"),
    "file": ("{n} file", "{n} files", "{n} 个文件"),
    "line": ("{n} line", "{n} lines", "{n} 行"),
    "place": ("{n} place", "{n} places", "{n} 处"),
}

FAILURES: tuple[tuple[str, str, tuple[str, str], tuple[str, str]], ...] = (
    # (tool or "", pattern in the reason, what happened, what to do next): the first row that fits is taken.
    (
        "",
        r"there is no\b|not found|no such|does not exist|doesn't exist|cannot find|不存在|找不到",
        ("there is nothing by that name.", "没有这个名字的东西。"),
        ("`list files` shows the names that exist.", "用 `列出工作区文件` 可以看到现有的名字。"),
    ),
    (
        "write_note",
        r"exist|differ|已有|已存在",
        ("a note with that name exists, and it was left as it is.", "已有同名的笔记，原来的内容没有改动。"),
        (
            "Another name works: `write a note named {other} about …`.",
            "换一个名字就可以：`写一篇名为 {other} 的关于…的笔记`。",
        ),
    ),
    (
        "write_note",
        r"block|secret|秘密|refus|not allowed|not permitted|denied|阻止|拒绝",
        ("the call was blocked. No note was written.", "这次调用被阻止，没有写任何笔记。"),
        (
            "A note with another name may be written: `write a note named my-plan about …`.",
            "换一个名字可以再写：`写一篇名为 my-plan 的关于…的笔记`。",
        ),
    ),
    (
        "read_file",
        r"\bis a folder|\bis a directory|是(?:一个)?文件夹",
        ("that is a folder, not a file.", "那是文件夹，不是文件。"),
        ("To look into it: `list files in {name}`.", "想看里面，可以说：`列出 {name} 里的文件`。"),
    ),
    (
        "read_file",
        r"past the end|超出",
        ("the file ends before that line.", "文件在那一行之前就结束了。"),
        ("To read it from the beginning: `read {name}`.", "想从头读，可以说：`读 {name}`。"),
    ),
    (
        "",
        r"is refused|outside|leads? out|absolute|escape|工作区(?:外|之外)",
        ("the path is refused, and nothing was opened.", "这个路径被拒绝，没有打开任何文件。"),
        ("`list files` shows what is inside.", "用 `列出工作区文件` 看看里面有什么。"),
    ),
    (
        "",
        r"block|refus|not allowed|not permitted|denied|permission|阻止|拒绝",
        ("the call was blocked. Nothing was done.", "这次调用被阻止，没有执行任何操作。"),
        ("Something else can be asked for; `help` shows what.", "可以换一个要求；说 `帮助` 看看有哪些。"),
    ),
    (
        "",
        r"not run|cancel|abort|stopped|取消|停止",
        ("it was stopped before it had run.", "还没运行就被停止了。"),
        ("Say `continue` to try again.", "说 `继续` 可以再试一次。"),
    ),
    (
        "read_file",
        r"binary|decode|utf-?8|not text|NUL|二进制",
        ("the file is not text.", "这个文件不是文本。"),
        ("`list files` shows other files.", "用 `列出工作区文件` 看看其他文件。"),
    ),
    (
        "",
        r"",
        ("the tool reported an error.", "工具报告了一个错误。"),
        ("`help` shows what can be asked for.", "说 `帮助` 可以看到能做什么。"),
    ),
)


def say(language: Language, key: str, **values: object) -> str:
    """Returns one sentence with its values. Raises KeyError for an unknown key or a value that is missing."""
    return SENTENCES[key][language == "zh"].format(**values)


def count(language: Language, number: int, what: str) -> str:
    """Returns a number with its noun: "1 file", "2 files", "2 个文件"."""
    one, many, chinese = COUNTED[what]
    return (chinese if language == "zh" else one if number == 1 else many).format(n=number)


def spoken(name: str) -> str:
    """Returns a name as a learner would have to write it in a sentence: in quotes when it holds spaces."""
    return f'"{name}"' if re.search(r"\s", name) else name


def code(text: str) -> str:
    """Returns ``text`` as Markdown code, whatever backticks it has in it, on one line."""
    plain = " ".join(text.split("\n"))
    fence = "`"
    while fence in plain:
        fence += "`"
    gap = " " if plain.startswith("`") or plain.endswith("`") or not plain.strip() else ""
    return f"{fence}{gap}{plain}{gap}{fence}"
