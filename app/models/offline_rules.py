"""How the offline tutor understands a sentence in English or Chinese: a table of patterns, tried in order."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from app.models import offline_intents as intents


class Understood(NamedTuple):
    """An intent and the language that it was expressed in."""

    intent: intents.Intent
    language: intents.Language


class Rule(NamedTuple):
    """One row: when ``pattern`` is found and ``build`` makes an intent of it (None: try the next row)."""

    language: intents.Language
    pattern: "re.Pattern[str]"
    build: intents.Build


def understand(text: str) -> Understood:
    """Returns what ``text`` asks for. Never fails: what no row matches is Help."""
    plain = _without_courtesy(text[:_LONGEST])
    for rule in RULES:
        found = rule.pattern.search(plain)
        intent = rule.build(found) if found else None
        if isinstance(intent, intents.WriteNote) and intent.text and len(text) > _LONGEST:
            # A text to be written is the end of the sentence, and is wanted whole.
            intent = replace(intent, text=text[text.rfind(intent.text, 0, _LONGEST) :].strip())
        if intent is not None:
            return Understood(intent, rule.language)
    return Understood(intents.Help(), language_of(text))


def language_of(text: str) -> intents.Language:
    """Returns the language of a text by its script: Chinese unless Latin words outnumber its characters."""
    han = len(re.findall(r"[\u3400-\u9fff]", text))
    return "zh" if han and han >= len(re.findall(r"[A-Za-z]+", text)) else "en"


_LONGEST = 2000
"""A wish stands at the beginning; patterns are not run over a pasted page."""

_COURTESY = re.compile(
    r"^(?:(?:hi|hello|hey|ok|okay|now|then|so|and|please|thanks|你好|您好|好的?)(?![\w-])[,，.!！。、\s]*)*"
    r"(?:(?:can|could|would|will) you |i(?:'d| would) like (?:you )?to |i want (?:you )?to |let(?:'s| us) )?"
    r"(?:please )?(?:现在|请你?|麻烦你?|帮我|帮忙|给我|能不能|能否|可不可以|可以|你能|我想让你|我想)*"
    r"(?:我要你?|让我们|再)*\s*",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?:[\s?!？！。~]|(?<=\w)\.|\s(?:please|for me|thanks)|(?<=[^\s])(?:吧|吗|呢|谢谢|好吗|，谢谢))+$", re.I
)


def _without_courtesy(text: str) -> str:
    plain = _CLOSING.sub("", text.strip())
    return plain[_COURTESY.match(plain).end() :].strip() or plain  # type: ignore[union-attr]  # it matches ""


_SHORT = {
    "SELF": r"(?:you|this|it|hornbook|an agent|agents|(?:the|this) (?:agent|tutor|program|app|assistant))",
    "THINGS": r"(?:files?|folders?|director(?:y|ies)|contents?|workspace|everything)",
    "WHOLE": r"(?:the |my |this )?(?:workspace|folder|directory)",
    "WORD": r"(?:the )?(?:words?|phrase|term|text|string)",
    "TEXT_FILE": r"\.(?:md|txt|py|json|toml|csv|html?|js|ya?ml)\b",
    "它": r"(?:你|它|这个?(?:程序|系统|助手|导师|软件)|智能体|代理|导师)",
    "物": r"(?:文件夹|文件|目录|内容|清单|列表|东西|资料)",
    "一下": r"(?:一下|下)?",
}


def _rows(language: intents.Language, build: intents.Build, *patterns: str) -> Iterator[Rule]:
    """Rows that make the same wish. In a pattern a space is any white space and <NAME> one of ``_SHORT``."""
    for pattern in patterns:
        whole = re.sub("<(\\w+)>", lambda name: _SHORT.get(name[1], name[0]), pattern).replace(" ", r"\s+")
        yield Rule(language, re.compile(whole, re.IGNORECASE | re.DOTALL), build)


def _read_on(_: "re.Match[str]") -> intents.Intent:
    return intents.ReadOn()


def _yourself(_: "re.Match[str]") -> intents.Intent:
    return intents.ExplainYourself()


def _help(_: "re.Match[str]") -> intents.Intent:
    return intents.Help(asked=True)


RULES: tuple[Rule, ...] = (
    # Going on.
    *_rows(
        "en",
        _read_on,
        r"^(?:(?:show|read|tell)(?: me)? )?(?:more|on|further|(?:the )?rest|the next (?:part|page))$",
        r"^(?:continue|go on|carry on|keep (?:going|reading)|next(?: page| part)?)(?: reading)?$",
    ),
    *_rows(
        "zh",
        _read_on,
        r"^(?:继续|接着|往下|更多|后面|剩下的?|下一[页段部]分?|然后|还有)(?:往下)?(?:阅?读|看|显示)?(?:下去)?$",
        r"^[阅]?[读看](?:下去|更多|后面的?|剩下的?)$",
    ),
    # Notes before all else, since what a note is about may look like any other wish.
    *_rows(
        "en",
        intents.note,
        r"\b(?:write|make|create|take|save|add|leave|jot(?: down)?) (?:[\w-]+ ){0,3}?notes?\b(?P<rest>.*)",
        r"^(?:note down|jot down) (?P<rest>(?P<topic>.+))",
        r"^summari[sz]e (?P<topic>.+?) (?:in|into|as) a note(?P<rest>.*)",
    ),
    *_rows(
        "zh",
        intents.note_zh,
        r"(?<![我你他她的])(?:写|记|做|新建|创建|建|生成|保存|添加|整理)(?!的|过|了|好)<一下>成?一?[个篇份条则些点]?"
        r"(?P<mid>.*?)的?笔记(?!\s*的|笔记)(?P<rest>.*)",
    ),
    # The tutor itself.
    *_rows(
        "en",
        _yourself,
        r"\bhow (?:do|does|did|are|is|can) <SELF>\b.*\b(?:works?|working|function|think|answer|built|made)\b",
        r"\b(?:explain|show me|tell me) (?:to me )?(?:yourself|how <SELF> works?)",
        r"^(?:who|what) are you$",
        r"\bare you (?:really )?(?:an? )?(?:ai|bot|human|llm|real|model|machine)\b",
    ),
    *_rows(
        "zh",
        _yourself,
        r"<它>.{0,6}(?:怎么|如何|怎样|咋).{0,4}(?:工作|运行|运作|思考|回答|做到)",
        r"^(?:怎么|如何)(?:工作|运行|运作)|你是(?:谁|什么|不是)|你是.{0,4}(?:AI|人工智能|真人|机器)|工作原理",
        r"(?:解释|介绍)<一下>(?:你自己|自己|你$)",
    ),
    *_rows("en", _help, r"^(?:help|commands|usage|what (?:can|do) (?:you|i) (?:do|ask)\b.*)$"),
    *_rows("zh", _help, r"^(?:帮助|你?(?:能|会|可以)?做(?:些?什么|啥)|能?帮我做什么|怎么用|有什么功能|使用说明)$"),
    # Listing.
    *_rows(
        "en",
        intents.listing,
        r"^(?:list|show|display|see|give)\b(?: (?:me|all|the|my|every|a list of|of))* <THINGS>\b(?P<rest>.*)",
        r"^(?:ls|dir)\b(?: -\w+)*(?P<folder>.*)",
        r"^(?:what|which) (?:\w+ )?<THINGS>\b(?P<rest>.*)",
        r"^what(?:'s| is| are) (?:there )?(?:in|inside) <WHOLE>(?P<rest>.*)",
        r"^(?:list|show|open) (?:(?:all|the|my) )*(?P<folder>\S+/)$",
        r"^list (?:(?:all|the|my) )*(?P<folder>\S+)(?: (?:folder|directory))?$",
    ),
    *_rows("en", intents.listing_of_folder, r"^what(?:'s| is| are) (?:there )?(?:in|inside) (?P<folder>\S+)$"),
    *_rows(
        "zh",
        intents.listing,
        r"^(?:递归地?)?(?:列出|列举|列一下|列)(?P<mid>.*?)<物>(?P<rest>.{0,4})$",
        r"^(?:显示|展示|看一?下|看看|查看|打开|看)(?P<mid>.*?(?:文件夹|目录|[里中下])的?)(?P<rest>(?:<物>)?.{0,2})$",
        r"^(?:显示|展示|看一?下|看看|查看|看)(?P<mid>(?:所有|全部|工作区|课程|的|有什么|有哪些)*)<物>(?P<rest>.{0,2})$",
        r"^(?P<mid>.*?)都?有(?:哪些|什么|多少|几个|啥)(?P<rest>.{0,4})<物>.{0,2}$",
        r"^(?:看一?下|看看|查看)?(?P<mid>.+?)[里中]面?都?有(?:些?什么|哪些|啥)(?P<rest>)$",
        r"^(?:列出|列举|列一下|列)(?P<folder>.+)$",
    ),
    # Searching.
    *_rows(
        "zh",
        intents.search,
        r"^在(?P<path>.+?)(?:里面?|中|下面?|内)?(?:搜索|查找|检索|搜|找)(?:一下)?(?P<query>.+)$",
        r"^(?:搜索|搜一?下|查找|查一?下|找一?下|寻找|检索|搜|找)(?:一下|关键词|单词|词语|关于|[:：\s])*"
        r"(?P<query>.+?)(?:的(?:内容|地方|文件)|在哪里?)?$",
        r"^(?P<query>.+?)(?:在哪里?|在什么地方|在哪些地方)(?:被?出现|被?提到|定义)?(?:了|过|的)?$",
    ),
    *_rows(
        "en",
        intents.search,
        r"^search (?:in )?(?:(?:the|my|all|files?|workspace|folder|lessons?|course|notes) )+for (?:<WORD> )?"
        r"(?P<query>.+)$",
        r"^search (?:for )?(?:<WORD> )?(?P<query>.+)$",
        r"^(?:grep|find|look (?:for|up)) (?:for )?(?:<WORD> )?(?:(?:all )?(?:mentions|occurrences|uses) of )?"
        r"(?P<query>.+)$",
        r"^where (?:is|are|does|do) (?:the )?(?P<query>.+?)"
        r"(?: (?:mentioned|defined|explained|described|used|appear|occur|stand)s?)?$",
    ),
    # Reading: the first rows take any title, the others only what looks like a path.
    *_rows("en", intents.reading_any, r"^(?:read|open|cat) (?:me )?(?P<rest>.+)"),
    *_rows(
        "en",
        intents.reading,
        r"^(?:show|view|see|display|print|summari[sz]e|look at|go through) (?P<rest>.+)",
        r"^(?:explain|tell me|what(?:'s| is| does| do)?) (?P<rest>.+)",
    ),
    *_rows(
        "zh",
        intents.reading_any,
        r"^(?:阅?读一?下?|读取|读一读|打开|念)(?P<rest>.+)",
        r"^(?:看一?下|看看|查看|显示)(?P<rest>.+)文件$",
    ),
    *_rows(
        "zh",
        intents.reading,
        r"^(?:看一?下?|看看|查看|显示|总结一?下?|概括一?下?|讲讲?|解释一?下?|介绍一?下?)(?P<rest>.+)",
    ),
    # A question about something: where the course speaks of it.
    *_rows(
        "en",
        intents.question,
        r"^(?:what(?:'s| is| are| does)|explain|tell me about|describe|define) (?P<topic>.+)",
        r"^(?:how (?:does|do)|why (?:does|do|is|are)) (?P<topic>.+)",
    ),
    *_rows(
        "zh",
        intents.question,
        r"^(?:什么(?:是|叫)|解释一?下?|介绍一?下?|讲讲|讲一?下?|说说)(?P<topic>.+)",
        r"^(?P<topic>.+?)(?:是什么(?:意思)?|是啥|(?:指|意味着)什么|怎么(?:工作|运行)的?)$",
    ),
    # A path by itself.
    *_rows("zh", intents.reading, r"^(?=.*[\u3400-\u9fff])(?P<rest>.*<TEXT_FILE>.*)"),
    *_rows("en", intents.reading, r"^(?P<rest>.*<TEXT_FILE>.*)"),
)
