"""Names in a learner's sentence: quoted names, paths, line numbers, the words that matter."""

import re

_QUOTED = re.compile(r"[\"“「『《`]([^\"”」』》`]+)[\"”」』》`]|(?<!\w)['‘]([^'’]+)['’](?!\w)")
_BREAK = r"\s,;，；、。：:\"“”‘’「」『』《》<>|*?？!！()（）"
_PATH = re.compile(
    rf"(?P<path>[^{_BREAK}]*?\.(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{{1,10}}(?![A-Za-z0-9/]|\.[A-Za-z0-9])"
    rf"|[^{_BREAK}]*/[^{_BREAK}]*)"
    r"(?::(?P<line>\d+))?"
)
_LINES = re.compile(
    r"(?:\blines?\s+|\boffset\s*[=:]?\s*|第\s*)(\d{1,9})(?:\s*行?\s*(?:-|–|—|to|through|到|至)\s*第?\s*(\d{1,9}))?(?:\s*行)?",
    re.I,
)
_VERB_STUCK = re.compile(r"^(?:一下|读取?|打开|看看?|文件|这个|那个|里的?|的|和|与|跟|以及|并)+(?=.)")
_FILLER = re.compile(
    r"^(?:(?:the|a|an|my|our|your|this|that|some|me|file|folder|directory|document|named|called|content|contents|of"
    r"|in|inside|under|within|from)\b(?![./])\s*)+|(?:\s+(?:file|folder|directory|again|document|now))+$",
    re.I,
)
_FILLER_ZH = re.compile(r"^(?:一下|一点|这个|那个|文件|我的|的|名为|叫做?|下)+\s*|\s*(?:的内容|这个文件|文件|的)+$")
_WHOLE = re.compile(
    r"\b(?:the|my|this|that|these|current|here|there|are|is|do|does|you|i|we|have|has|exist|files?|folders?|workspace|director(?:y|ies)|project"
    r"|root|in|inside|of|under|within|from|all|and|with|available|recursively|recursive|sub-?folders|everything|its|including"
    r"|contents?|please|now|a|an|can|me|names?|levels|tree|whole|course)\b"
    r"|有哪些|有什么|哪些|什么|工作区|工作空间|当前|这个|这里|里面|所有|全部|一下|我的|文件夹|子文件夹|目录|子目录|文件|课程|内容|下面|递归|包括|各级|都|的|里|中|下|内|地",
    re.I,
)
_STOPWORDS = frozenset(
    re.findall(
        r"\w+",
        """a an the this that these those it its i you we they is are was were be been do does did done
        how what why when where which who whom whose of on in at to for from by with about into and or not
        as can could should would will may might must has have had work works working mean means meaning there
        here one some any all so up me my our your their explain explained please learned read said course
        workspace""",
    )
)
_STOP_ZH = re.compile(
    r"^(?:一下|这个|那个|什么是|什么叫|的|什么|怎么|如何|为什么|我们|你|它)+|(?:的|是什么|怎么工作|如何工作|是如何工作|吗|呢)+$"
    r"|(?:你|我们?)?(?:刚才|刚刚|已经)?(?:读|看)(?:过|到|了|完)的?(?:内容|东西|文件)?$"
)


def strip_quotes(text: str) -> str:
    """Returns ``text`` without the quotation marks around it and without spaces at its ends."""
    text = text.strip()
    found = _QUOTED.fullmatch(text)
    return (found[1] or found[2]).strip() if found else text


def tidy(text: str) -> str:
    """Returns a name or topic without quotes, articles and filler words at its ends."""
    quoted = strip_quotes(text)
    if quoted != text.strip():
        return quoted
    plain = _FILLER_ZH.sub("", _FILLER.sub("", quoted)).strip(" \t\n,，;；:：")
    return strip_quotes(plain)


def file_names(text: str) -> tuple[str, ...]:
    """Returns the names in ``text`` that are quoted or look like paths: in order, each once, at most four."""
    found: dict[str, None] = {}
    rest = text
    for match in _QUOTED.finditer(text):
        found[(match[1] or match[2]).strip()] = None
        rest = rest.replace(match[0], " ", 1)
    for match in _PATH.finditer(rest):
        name = _VERB_STUCK.sub("", match["path"])
        if name.strip("/") or name == "/":
            found[name] = None
    return tuple(name for name in found if name)[:4]


def line_range(text: str) -> tuple[int | None, int | None]:
    """Returns (first line, number of lines) if ``text`` gives them: "lines 3 to 9", "a.md:12", "第 3 行"."""
    plain = _QUOTED.sub(" ", text)
    if found := _LINES.search(plain):
        first = max(1, int(found[1]))
        return first, max(1, int(found[2]) - first + 1) if found[2] else None
    path = _PATH.search(plain)
    return (max(1, int(path["line"][:9])), None) if path and path["line"] else (None, None)


def places(text: str) -> list[str]:
    """Returns the folders that a wish for a listing names; words for the workspace itself are none."""
    names = list(file_names(text))
    if names:
        return names
    rest = _WHOLE.sub(" ", text)
    return [word for word in re.split(rf"[{_BREAK}]+", rest) if re.search(r"\w", word)]


def core_of(topic: str) -> str:
    """Returns the words of a topic that are worth searching for, as one phrase; empty when there are none."""
    words = _words(topic)
    while words and words[0].casefold() in _STOPWORDS:
        words.pop(0)
    while words and words[-1].casefold() in _STOPWORDS:
        words.pop()
    return _STOP_ZH.sub("", " ".join(words)).strip()


def keywords_of(topic: str) -> list[str]:
    """Returns what to look for: the phrase first, then its words, longest first; casefolded, each once."""
    core = core_of(topic).casefold()
    single = [word for word in re.split(r"[\s的和与及]+", core) if len(word) > 1 and word not in _STOPWORDS]
    found = dict.fromkeys([core, *sorted(single, key=len, reverse=True)])
    return [word for word in found if word]


def _words(text: str) -> list[str]:
    return [word for part in text.split() if (word := part.strip(".,;:!?\"'“”‘’「」『』《》()（），。；：？！"))]


def is_folder(title: str, path: str) -> bool:
    """Returns whether ``title`` is the name or the path of the folder ``path``."""
    wanted, folder = title.strip("/").casefold(), path.strip("/").casefold()
    return wanted in (folder, folder.rpartition("/")[2])


def files_like(title: str, files: list[str]) -> list[str]:
    """Returns the paths that ``title`` may mean: those with just this name, else those with all its words."""
    wanted = title.casefold()
    names = {path: path.casefold().rpartition("/")[2] for path in files}
    same = [path for path, name in names.items() if wanted in (path.casefold(), name)]
    stem = [path for path, name in names.items() if wanted == re.sub(r"(?<=.)\.\w+$", "", name)]
    if same or stem:
        return same or stem
    words = [word for word in re.findall(r"\w+", wanted) if word not in _TITLE_WORDS]
    return [path for path in files if words and all(_is_in(word, path.casefold()) for word in words)]


_TITLE_WORDS = (
    frozenset(["lesson", "chapter", "part", "file", "note", "about", "课程", "课", "章", "笔记"]) | _STOPWORDS
)


def _is_in(word: str, path: str) -> bool:
    """Short words and numbers must stand alone; longer ones, and Chinese, may be part of a word."""
    if len(word) > 2 or not word.isascii():
        return word in path
    return word in re.split(r"[\W_]+", path)
