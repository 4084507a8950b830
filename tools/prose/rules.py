"""The rules of CONTRIBUTING.md's section "English" that a program can hold.

`findings(text, words)` yields (offset in the text, end, rule, advice).
"""

import re

from source import CODE, COMMENT, ERROR, SUBJECT, TEST, Text

LONGEST_SENTENCE = 25
LONGEST_SUBJECT = 72

NAMES = ("opening", "construction", "person", "long", "it", "safety", "word")


def pattern(*alternatives):
    return re.compile("|".join(alternatives), re.I)


LABEL = re.compile(r"(?:SAFETY|Safety|NOTE|Note|TODO|FIXME)\s*:\s*")
OPENING = re.compile(
    r"[(\[\"*_ ]*("
    r"What(?:'s)?\b(?!ever)|Where(?:'s)?\b(?!as|ver)|Whether (?:that|it|this)\b|It(?:'s)?\b|That(?:'s)?\b"
    r"|One (?:that|who|which|whose|of which)\b|The same\b(?!-)|As\b(?!-)"
    r"|Has (?!been\b|to\b|no\b|not\b|never\b|already\b)(?:[\w'" + CODE + r"]+ ){1,6}?"
    r"(?:taken|told|done|said|heard|sent|given|made|put|written|read|begun|gone|known|seen|left|[a-z]+ed)\b"
    r")"
)

OWNERS = r"(?:kernel|libc|glibc|program|peer|caller|engine|agent|library|process|thread|user|NIC|host|compiler)"
# A genitive without its noun is followed by a sign or by one of these words.
NO_NOUN = (
    r"(?=[.,;:)\]]|\s*$|\s+(?:and|or|alone|to|until|again|from|when|while|once|if|as|but|not|in|on|at|by|for|with|that"
    r"|which|where|since|because|after|before|too|also|itself|is|are|was|were|may|must|can)\b)"
)
ARTICLE = r"(?:the|a|an|its|their|this|that|these|those|every|each|another|all|some|any|them|him|it)"
# Each: words without which the search is skipped, what is searched for, advice.
CONSTRUCTIONS = (
    (
        ("of which",),
        pattern(
            r"(?<!regardless )(?<!independent )(?<!independently )(?<!irrespective )(?<!matter )(?<!question )"
            r"(?<!choice )(?<!record )(?<!because )(?<!track )(?<!each )(?<!neither )(?<!either )(?<!none )(?<!all )"
            r"(?<!some )(?<!both )(?<!most )(?<!any )(?<!many )(?<!one )(?<!two )(?<!three )(?<!few )(?<!several )"
            r"\bof which\b"
        ),
        "use `whose`, or a sentence of its own",
    ),
    (("what there",), pattern(r"\bwhat there (?:is|are|was|were)\b"), "name the thing"),
    (
        ("to be",),
        pattern(r"(?<!aim )(?<!goal )(?<!purpose )(?<!point )(?<!idea )(?<!task )\b(?:is|are|was|were) (?:not )?to be\b"),
        "use the adjective (`outgoing`), or say who must do it",
    ),
    (("for want of",), pattern(r"\bfor want of\b"), "use `because there is no`"),
    (
        ("be it",),
        pattern(
            r"(?<!would )(?<!may )(?<!might )(?<!can )(?<!could )(?<!will )(?<!must )(?<!to )(?<!should )"
            r"(?<!not )(?<!cannot )\bbe it\b"
        ),
        "use `whether ... or ...`",
    ),
    (("otherwise than",), pattern(r"\botherwise than\b"), "use `except`, or `differently from`"),
    (
        ("told", "taken", "done", "said", "heard"),
        pattern(
            rf"\b(?:has|have|had|having)\s+{ARTICLE}\s+"
            r"(?:(?!(?:been|which|that|and|or|it|may|must|can|will|would|could|should)\b)"
            rf"[\w'{CODE}-]+\s+){{0,3}}?"
            r"(?:told|taken|done|said|heard)\b"
        ),
        "use the verb: `tells`, `takes`, `does`",
    ),
    (
        ("'s",),
        pattern(
            rf"\b(?:is|are|was|were|not|be|been)\s+(?:of\s+)?(?:the\s+|this\s+|a\s+)?{OWNERS}'s{NO_NOUN}",
            rf"\bof\s+(?:the\s+)?{OWNERS}'s{NO_NOUN}",
        ),
        "say who owns, calls or allocates it",
    ),
)

PERSON = pattern(r"\b(?:who|whoever|whom|nobody|somebody|someone|everybody|anybody)\b")
PEOPLE = pattern(
    r"\b(?:people|persons?|humans?|users?|readers?|authors?|owners?|administrators?|admins?|operators?|root|maintainers?"
    r"|contributors?|developers?|programmers?|attackers?|reviewers?|packagers?|you|man|woman|men|trust\w*|forge\w*"
    r"|encrypt\w*|signed|security|permissions?|rights|builds|watches the test)\b"
)
IT = re.compile(r"\bit\b", re.I)
VAGUE_SAFETY = pattern(r"\b(?:as|see|like) (?:above|before)\b|\bvouch(?:es|ed)?\b")

ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|cf|vs|approx|[A-Z])\.$|\b(?:Fig|No|Sec|Eq|al)\.$")
SENTENCE_END = re.compile(r"[.!?][\"')\]*_]*(?=\s+(?![a-z])|\s*$)")
WORD = re.compile(rf"[^\s]*[A-Za-z0-9{CODE}][^\s]*")

PART = r"(?:[a-z][\w./*{}-]*|[\w./*{}-]*[./][\w./*{}-]*|[A-Z]{3,})"
PARTS = rf"{PART}(?: (?:{PART}|--?[\w-]+)){{0,2}}"
SUBJECT_FORM = re.compile(rf"{PARTS}(?:, {PARTS})*: (.+)")
NOT_IMPERATIVE = re.compile(
    r"(?:a|an|the|this|that|these|those|it|its|they|there|what|which|who|where|when|how|whether|one|two|three|each|every"
    r"|all|no|some|any|more|after|before|of|in|on|at|by|with|without|as|if|[A-Za-z]+ed|[A-Za-z]+ing|[A-Za-z]+(?<![su])s)\b(?![-./_])",
    re.I,
)
IMPERATIVE = re.compile(r"(?:alias|bias|bring|embed|exceed|feed|need|ping|proceed|ring|seed|shed|speed|string|succeed)\b", re.I)


class Words:
    """The table of words.txt: word or phrase, lower case, to the field's word."""

    def __init__(self, lines):
        self.better, right = {}, []
        for line in lines:
            if not line.strip() or line.startswith("#"):
                continue
            old, better, *except_in = (part.strip() for part in line.split("|"))
            for word in old.split(","):
                self.better[word.strip().lower()] = better
            right += [phrase.strip().lower() for part in except_in for phrase in part.split(",")]
        longest_first = sorted(self.better, key=len, reverse=True)
        self.old = re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b(?![-/._]\w)")
        self.right = re.compile(rf"\b(?:{'|'.join(map(re.escape, right)) or '(?!)'})\b")

    def findings(self, lower):
        """Yields (start, end, the field's word) for a text in lower case."""
        for match in self.old.finditer(lower):
            start, end = match.span()
            if not any(phrase.start() < end and start < phrase.end() for phrase in self.right.finditer(lower)):
                yield start, end, self.better[match.group()]


def sentences(clean):
    """Yields (start, end) of each sentence."""
    start = 0
    for match in SENTENCE_END.finditer(clean):
        if ABBREVIATION.search(clean, start, match.start() + 1):
            continue
        yield start, match.end()
        start = match.end()
    if clean[start:].strip():
        yield start, len(clean)


def findings(text, words):
    clean = text.clean
    label = LABEL.match(clean)
    begin = label.end() if label else 0
    if text.kind == COMMENT and text.first and not label:
        match = OPENING.match(clean)
        end = next((end for _, end in sentences(clean)), len(clean))
        if match and clean[end - 1:end] != "?":
            yield match.start(1), match.end(1), "opening", "begin with a verb or a noun"
    if text.kind == COMMENT and label and clean[:label.end()].upper().startswith("SAFETY"):
        match = VAGUE_SAFETY.search(clean, begin)
        if match:
            yield match.start(), match.end(), "safety", "name the invariant"
    flat = clean.replace("\n", " ")
    lower = flat.lower()
    for signs, expression, advice in CONSTRUCTIONS:
        if not any(sign in lower for sign in signs):
            continue
        for match in expression.finditer(flat):
            yield match.start(), match.end(), "construction", advice
    if any(sign in lower for sign in ("who", "body", "someone")):
        for match in PERSON.finditer(flat):
            if not PEOPLE.search(text.topic or flat):
                yield match.start(), match.end(), "person", "name the thread or the process"
    if text.kind in (ERROR, TEST):
        for match in IT.finditer(flat):
            yield match.start(), match.end(), "it", "name the thing"
    if text.kind not in (SUBJECT, TEST):
        for start, end in sentences(clean) if clean.count(" ") + clean.count("\n") >= LONGEST_SENTENCE else ():
            count = sum(1 for _ in WORD.finditer(clean, start, end))
            if count > LONGEST_SENTENCE:
                while clean[start].isspace():
                    start += 1
                yield start, end, "long", f"a sentence of {count} words; at most {LONGEST_SENTENCE}"
    for start, end, better in words.findings(lower):
        yield start, end, "word", f"the field's word: {better}"


def findings_of_subject(subject, words):
    """Yields (rule, advice) for a commit subject: its form, and what holds for every text."""
    if subject.startswith("Revert \""):
        return
    if len(subject) > LONGEST_SUBJECT:
        yield "subject", f"{len(subject)} characters; at most {LONGEST_SUBJECT}"
    match = SUBJECT_FORM.fullmatch(subject)
    if not match:
        yield "subject", "write `part: imperative, one change`"
    elif NOT_IMPERATIVE.match(match.group(1)) and not IMPERATIVE.match(match.group(1)):
        yield "subject", "begin with a verb after the colon"
    text = Text(SUBJECT, [(0, match.group(1) if match else subject)])
    for _, _, rule, advice in findings(text, words):
        yield rule, advice
