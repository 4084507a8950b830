"""Finds the English in source files: comments, Markdown, messages and the names of tests.

`texts(path, source)` yields a `Text` for each paragraph. `Text.clean` has the length of `Text.raw`, so an
offset into one is an offset into the other. In `clean`, code and addresses are runs of `CODE`.
"""

import bisect
import io
import re
import tokenize

CODE = "\x01"  # stands for each character of code, an address or a placeholder

COMMENT, PROSE, ERROR, MESSAGE, TEST, SUBJECT = "comment", "prose", "error", "message", "test", "subject"

C_LIKE = ("c", "h", "cc", "x", "java", "js", "go")
HASHES = ("toml", "yaml", "yml", "in", "spec", "Containerfile", "mk", "awk", "rb", "rules", "Makefile")

# Files written by a program, or by other projects.
LEFT_OUT = re.compile(
    r"^(?:LICENSE|fuzz/corpus/|abi/stored/|bench/|tests/apps-ftp/)|\.lock$|\.patch$|/proptest-regressions/|/tables/"
)


class Text:
    """A paragraph, a list item, a table cell, a message or a name."""

    def __init__(self, kind, lines, first=False, topic=""):
        self.kind = kind
        self.first = first  # starts its comment
        self.topic = topic  # the comment or section around it
        self.numbers = [number for number, _ in lines]
        self.raw = "\n".join(line for _, line in lines)
        self.offsets = [0]
        for _, line in lines[:-1]:
            self.offsets.append(self.offsets[-1] + len(line) + 1)
        self.clean = clean(self.raw)

    def line(self, offset):
        """Returns the line of the file that holds `offset` of the text."""
        return self.numbers[bisect.bisect_right(self.offsets, offset) - 1]


def blank(match):
    return re.sub(r"[^\n]", CODE, match.group())


def spaces(match):
    return re.sub(r"[^\n]", " ", match.group())


CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\1(?!`)", re.S)
ADDRESS = re.compile(r"\b[a-z]+://[^\s)>\]]+")
TARGET = re.compile(r"\]\([^)\s]*(?:\s+\"[^\"]*\")?\)|\]\[[^\]]*\]")
TAG = re.compile(r"<!--.*?-->|</?[a-z][^>\n]*>", re.S)


def clean(raw):
    """Replaces code by `CODE`, and targets of links and tags by spaces."""
    if "`" in raw:
        raw = CODE_SPAN.sub(blank, raw)
    if "://" in raw:
        raw = ADDRESS.sub(blank, raw)
    if "](" in raw or "][" in raw:
        raw = TARGET.sub(spaces, raw)
    if "<" in raw:
        raw = TAG.sub(spaces, raw)
    return raw


FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
HEADING = re.compile(r"\s*#{1,6}\s+")
USAGE = re.compile(r"[Uu]sage:")
LETTERS = re.compile(r"[A-Za-z]{2}")


def paragraphs(kind, lines, topics=False):
    """Splits the lines of a comment or a page, without their comment signs, into paragraphs.

    With `topics`, the topic of a paragraph is its section; otherwise all of the lines.
    """
    whole = "" if topics else " ".join(line for _, line in lines)
    section, sections = [], []
    found, current = [], []
    fence, after_blank, in_list, in_usage = None, True, False, None

    def end():
        if current and any(LETTERS.search(line) for _, line in current):
            found.append((list(current), len(sections)))
        current.clear()

    for number, line in lines:
        mark = FENCE.match(line)
        if fence or mark:
            if not fence:
                end()
                fence = mark.group(1)
            elif line.strip().startswith(fence):
                fence = None
            continue
        stripped = line.strip()
        if not stripped:
            end()
            after_blank = True
            continue
        if in_usage and line.startswith("    "):
            continue
        in_usage = USAGE.match(line)
        if in_usage:
            end()
        item = ITEM.match(line)
        heading = HEADING.match(line)
        if after_blank and not in_list and not item and line.startswith("    "):
            continue  # code by indentation, and the lines below it
        after_blank = False
        if stripped.startswith("|"):
            end()
            for cell in re.split(r"(?<!\\)\|", stripped):
                current.append((number, cell.strip()))
                end()
        elif heading:
            end()
            sections.append(" ".join(section))
            section.clear()
            in_list = False
            current.append((number, line[heading.end():]))
            end()
        else:
            if item:
                end()
                in_list = True
                line = line[item.end():]
            elif not line.startswith(" "):
                in_list = in_list and bool(current)
            current.append((number, line.strip().removeprefix("> ")))
        section.append(line)
    end()
    sections.append(" ".join(section))
    for index, (part, place) in enumerate(found):
        yield Text(kind, part, first=index == 0 and not topics, topic=sections[place] if topics else whole)


RUST_TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)
    |(?P<block>/\*.*?\*/)
    |r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)
    |"(?P<string>[^"\\]*(?:\\.[^"\\]*)*)"
    |'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'\n])'""",
    re.X | re.S,
)
C_TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)
    |(?P<block>/\*.*?\*/)
    |`(?P<raw>[^`]*)`
    |"(?P<string>[^"\\\n]*(?:\\.[^"\\\n]*)*)"
    |'(?:\\[^\n']+|\\'|[^\\'\n])'""",
    re.X | re.S,
)

FORMAT = r"(?:(?:std::)?format!\(\s*)?"
ERROR_BEFORE = re.compile(
    r"(?:\b(?:anyhow|bail|eprintln|eprint|warn|error)!\(\s*"
    r"|\.(?:with_)?context\(\s*(?:\|\w*\|\s*\{?\s*)?" + FORMAT +
    r"|#\[error\(\s*|\bError::(?:other|new)\(\s*(?:[\w:]+,\s*)?" + FORMAT +
    r"|\bErr\(\s*" + FORMAT + r"|\bmap_err\(\s*\|\w*\|\s*" + FORMAT +
    r"|\bensure!\([^;\"]*,\s*|\b(?:errors\.New|fmt\.Errorf|log\.\w+)\(\s*)$"
)
MESSAGE_BEFORE = re.compile(r"(?:\bprintln!\(\s*|\bwrite(?:ln)?!\(\s*\w+,\s*|\bwrite_str\(\s*)$")
TESTS_BELOW = re.compile(r"^#\[cfg\((?:all\()?test\b.*\)\]\s*(?:#\[[^\n]*\]\s*)*mod \w+ \{", re.M)
TEST_NAME = re.compile(
    r"^[ \t]*#\[(?:\w+::)*test(?:\([^)\n]*\))?\]\s*(?:(?:#\[[^\n]*\]|//[^\n]*)\s*)*(?:pub )?(?:async )?fn (\w+)", re.M
)
LINE_SIGN = re.compile(r"//[/!]?(?!/)|/+")
HAS_MESSAGES = re.compile(r"^(?:crates|abi|cli|lang)/")
IN_TESTS = re.compile(r"(?:^|/)(?:tests|benches|examples|fuzz)/|(?:^|/)tests?\.rs$|_test\.go$")


def message(kind, number, string):
    string = re.sub(r"\{\{|\}\}|\\\n", lambda m: "  " if "\n" not in m.group() else " \n", string)
    string = re.sub(r"\{[^{}\n]*\}|%[+#-]?\d*[a-z]\b", blank, string)
    string = re.sub(r"\\.", "  ", string)
    return Text(kind, [(number + i, line) for i, line in enumerate(string.split("\n"))])


def c_like(path, source, token):
    """Yields the comments and messages of a language whose comments are those of C."""
    messages = HAS_MESSAGES.match(path) and not IN_TESTS.search(path)
    below = TESTS_BELOW.search(source)
    messages_end = (below.start() if below else len(source)) if messages else 0
    number, position = 1, 0
    open_comment, last = [], None  # the lines so far, and (sign, column, offset of the end) of the last one

    for match in token.finditer(source):
        start = match.start()
        number += source.count("\n", position, start)
        position = start
        kind = match.lastgroup
        if kind == "line":
            column = start - (source.rfind("\n", 0, start) + 1)
            text = match.group()
            sign = LINE_SIGN.match(text).group()
            if open_comment and not (
                last[:2] == (sign, column) and source.count("\n", last[2], start) == 1 and source[last[2]:start].isspace()
            ):
                yield from paragraphs(COMMENT, open_comment)
                open_comment = []
            open_comment.append((number, text[len(sign):].removeprefix(" ")))
            last = (sign, column, match.end())
        elif kind == "block":
            lines = re.sub(r"\*/$", "", re.sub(r"^/\*[*!]?", "", match.group())).split("\n")
            lines = [re.sub(r"^\s*\* ?", "", lines[0] if i == 0 else line) for i, line in enumerate(lines)]
            shift = min((len(li) - len(li.lstrip()) for li in lines[1:] if li.strip()), default=0)
            lines = [lines[0].strip()] + [line[shift:] for line in lines[1:]]
            yield from paragraphs(COMMENT, [(number + i, line) for i, line in enumerate(lines)])
        elif kind in ("raw", "string") and start < messages_end:
            before = source[max(0, start - 200):start]
            if ERROR_BEFORE.search(before):
                yield message(ERROR, number, match.group(kind))
            elif MESSAGE_BEFORE.search(before):
                yield message(MESSAGE, number, match.group(kind))
    if open_comment:
        yield from paragraphs(COMMENT, open_comment)


def rust(path, source):
    yield from c_like(path, source, RUST_TOKEN)
    for match in TEST_NAME.finditer(source):
        number = source.count("\n", 0, match.start(1)) + 1
        yield Text(TEST, [(number, match.group(1).replace("_", " "))])


def signs(source, sign):
    """Yields the comments that begin with `sign`: whole lines, and ends of lines without quotes."""
    comment, end = [], re.compile(rf"\s{re.escape(sign)} ([^'\"]*)$")
    column = last = None
    for number, line in enumerate(source.split("\n"), 1):
        stripped = line.lstrip()
        if stripped.startswith(sign) and not stripped.startswith("#!"):
            here = len(line) - len(stripped)
            if comment and (last != number - 1 or here != column):
                yield from paragraphs(COMMENT, comment)
                comment = []
            comment.append((number, stripped.lstrip(sign[0]).removeprefix(" ")))
            column, last = here, number
            continue
        if sign in line:
            trailing = end.search(line)
            if trailing and line.count("'", 0, trailing.start()) % 2 == 0 == line.count('"', 0, trailing.start()) % 2:
                yield from paragraphs(COMMENT, [(number, trailing.group(1))])
    if comment:
        yield from paragraphs(COMMENT, comment)


def python(source):
    """Yields the comments and documentation strings of a Python program."""
    comment, last = [], None
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, IndentationError):
        yield from signs(source, "#")
        return
    before = tokenize.NEWLINE
    for token in tokens:
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            if comment and last != (token.start[0] - 1, token.start[1]):
                yield from paragraphs(COMMENT, comment)
                comment = []
            comment.append((token.start[0], token.string.lstrip("#").removeprefix(" ")))
            last = token.start
        elif token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT):
            body = re.sub(r"^\w*(\"\"\"|'''|\"|')|(\"\"\"|'''|\"|')$", "", token.string).split("\n")
            lines = [body[0]] + [line.removeprefix(" " * token.start[1]) for line in body[1:]]
            yield from paragraphs(COMMENT, [(token.start[0] + i, line) for i, line in enumerate(lines)])
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.DEDENT):
            before = token.type
    if comment:
        yield from paragraphs(COMMENT, comment)


def language(path, source):
    """Returns the ending of the file's language; of a program without an ending, by its first line."""
    name = path.rsplit("/", 1)[-1]
    ending = name.rsplit(".", 1)[-1]
    if source.startswith("#!"):
        program = source.split("\n", 1)[0]
        return "py" if "python" in program else "sh" if re.search(r"\b(?:bash|dash|sh)\b", program) else "in"
    return ending


def texts(path, source):
    """Yields the texts of a file; none for a file of a kind that holds no English."""
    if LEFT_OUT.search(path):
        return
    kind = language(path, source)
    if kind == "rs":
        yield from rust(path, source)
    elif kind in C_LIKE:
        yield from c_like(path, source, C_TOKEN)
    elif kind == "py":
        yield from python(source)
    elif kind == "md":
        yield from paragraphs(PROSE, list(enumerate(source.split("\n"), 1)), topics=True)
    elif kind == "sh" or kind in HASHES:
        yield from signs(source, "#")
    elif kind == "lua":
        yield from signs(source, "--")
