"""Write tests/index/anserini_analysis.jsonl: what Anserini makes of some hundreds of inputs.

Each line holds a text and its terms by stemmer; a stemmer that gives the terms of ``none`` is left
out.

    LUCENE_PYTHON benchmarks/analysis_golden.py
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

from analysis_parity import fuzz
from lucene_oracle import anserini

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "index" / "anserini_analysis.jsonl"

TEXTS = """
The quick brown foxes' tails weren't jumping over John's lazy dogs
IS it to be, or NOT to be? That is the question: whether 'tis nobler
O'Neill's o'neil's rock'n'roll 'quoted' ''twice'' it's'nt dogs' s's 's ' James's
writer’s O’Neil’s ’tis ‘quoted’ writer＇s WRITER’S ab´s x′s y`s z‛s
a.b a..b a.b. .a.b U.S.A. u.s. e.g. i.e. etc... Ph.D. v1.2.3 3.x x.3 3.14 .5 5. 1.a a.1 1.2.a
1,000,000.50 1,a a,1 1;2 1,,2 1.,2 1'000 1’000 1:30 12:30:45 a:b a:1 1:a :a: ::a 50% $5 #5 5#
#tag
x_y _x y_ __init__ _ ___ _1 1_ 1_2 a_1.5_b a_.b a._b foo__bar snake_case_name -x- well-known
e-mail
someone.else@example.com http://www.example.com:8080/a_b/c.d?e=f&g=h+i%20j#k ftp://1.2.3.4/x
C++ C# .NET F# AT&T R&D Q&A and/or <b>bold</b> &amp; {x} [y] (z) a|b ~user /usr/bin \\n @user
COVID-19 sars-cov-2 H2O 2nd 21st 1990s 90's 80s' mp3 i18n x86_64 3D 1e10 1E-10 0xFF 1,5e3
geology geologies geological geologist apology apologies analogy biology logy logi ology blogi
possibly sensibly visibly ably bly probably feebly terribly nimbly humbly assembly blies bli
tribly
trekked trekking bootstrapped jazzed jazzing buzzed hissing falling filed hopping axxed boxxing
skivvying revved revving yakked yukking faxxed byyed ayyed qaqqed sheikhhed 11ed a11ing ééed
agreed feed plastered bled motoring sing conflated troubled sized tanned fizzed failing happy
sky
relational conditional rational valenci hesitanci digitizer conformabli radicalli differentli
vileli
analogousli vietnamization predication operator feudalism decisiveness hopefulness callousness
formaliti sensitiviti sensibiliti triplicate formative formalize electriciti electrical hopeful
goodness revival allowance inference airliner gyroscopic adjustable defensible irritant
replacement
adjustment dependent adoption homologou communism activate angulariti homologous effective
bowdlerize
probate rate cease controll roll caresses ponies ties caress cats yes by my eye say says yyy
university universities universal experience experiments generalizations oscillators dying lies
news innings outings cannings species thesis analyses criteria data indices matrices went better
later cursor vortices centric wolves weber kelly
Τὸ ΟΔΟΣ Οδυσσεύς ΣΑΣ Σ ΑΣ'ς ΌΣΟΣ İstanbul DİYARBAKIR Işık ıI K Å ǅ ẞ ﬁne ſtone STRASSE Straße ŉ
café CAFÉ naïve résumés Ångström’s Cafe\u0301s e\u0301 \u0301a a\u0301\u0302.b\u0303 a\u00adb
co\u00adop \u00ad a\u200bb a\u200cb a\u200db
Привет, мир! Москва-река ЁЛКА т.е. 3-й Київ’s з’їзд Ѐ
שלום עולם צה"ל ג'ירפה ה' ה" א"ב"ג א'ב אב'ג אב"ג'ד א.ב"ג ""א'' ש״ס ג׳
السلام عليكم ١٢٣٫٤٥ ١٬٠٠٠ كتابٌ ؀١ لا، نعم؛ ۱۲۳
हिन्दी नमस्ते क्षत्रिय १२३ தமிழ் தமிழ்நாடு বাংলা
สวัสดีครับ ภาษาไทย ๑๒๓ ไทย123 abcไทย ลาว ພາສາລາວ မြန်မာ ភាសាខ្មែរ \u0e34 a\u0e34b
中文 漢字かな交じり文 東京タワー、カタカナ・ハーフ ｶﾀｶﾅ ｱﾞ ゟ ヿ 々 〇 〆 ゛ か\u3099
カ\u3099ー 𠀀𪜶 㐀
한국어 조선말 한글abc 각각 ᄒ\u1161\u11ab ㄱㄴ ㈀
１２３ １，０００ １．５ ＡＢＣ ａ＿ｂ ﹍ａ ㌔ ㍿ カ_カ カ__ア カア_b カ1 1カ カa aカ _カ_
😀 😀😀 👍🏽 👍\ufe0f🏽 👨\u200d👩\u200d👧\u200d👦 👩🏾\u200d🚀 ❤\ufe0f ❤\ufe0e ❤\ufe0f\u200d🔥
😀a a😀 1😀 😀\u0301 \u200d😀 a\u200d😀 😀\u200d\u200d😀 😀\u200da
🇩🇪 🇩🇪🇫🇷 🇩 🇩🇪🇫 🇩\u0301🇪 a🇩🇪 #\ufe0f\u20e3 #\u20e3 *\ufe0f\u20e3 1\ufe0f\u20e3 1\u20e3a
#\u0301\u20e3 #\ufe0f
🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f 🏴\ufe0f\U000e0067\U000e007fa
🏴\ufe0f\U000e0067
ℹ ℹ\ufe0f ℹ\ufe0fa ℹ\u200d😀 aℹ ℹa ℹ\u200d😀a ℹ\u200dℹb Ⓜ\ufe0f 🅰🅱 🅰\ufe0f\u200d🅱c ©2024 ® ™ 〰
〽 ㊗ ★ ☎ 🀄 🈀 🈁
𝐀𝐁𝐜 𝐱s 𝐱𝐱ed 𝒏𝒐𝒕 𐐀𐐁 𐐀'𐐁 𐌰s 𝟏𝟐 𝟏,𝟐 𐎠 𓀀 𒀀 🄰 𞤀𞤣 a\U000e0001b
\u1c90\u1c91 \ua7cb\ua7cc \U00010d50 \U00010570 \u08c8 \U0001fbf0 \U00030000 \U0001f6dc \u32ff
\u4db6 \u9ff0
a\u202fb \u203fa a\u2040b a\u2054 x\u2027y l·l a·b a\u0387b a\ufe55b a\uff1ab 1\u20442 1\u066c2
1\u07f82 1\ufe102 1\ufe142
"""

SPACES = (
    "line one\nline two\r\nline three\ttab\x0bvt\x0cff\x1cfs\x85nel\u2028ls\u2029ps\u3000is"
    "\xa0nb\u2003em\ufeffbom a\x00b \ufffc"
)
ENDINGS = ("", "'s end", ".com", "\u0301\u0301\u0301", "\U00010400", "\U0001f600")


def inputs() -> list[str]:
    """Return the texts: the curated ones, tokens about the limits, and random strings."""
    texts = TEXTS.strip("\n").split("\n")
    texts += ["", " ", "\n", SPACES]
    texts += ["x" * length + ending for length in (253, 254, 255, 256) for ending in ENDINGS]
    texts += ["x" * 511, "_" * 254 + "a", "_" * 255 + "a", "a." * 130, "b" + "\u0301" * 256]
    texts += ["\U00010400" * 128, "b" + "\U00010400" * 128, "\U0001f600\u200d" * 86]
    texts += islice(fuzz(7), 250)
    return texts


def main() -> None:
    """Write the file."""
    analyzers = {name: anserini(name) for name in ("porter", "krovetz", "none")}
    lines = []
    for text in inputs():
        record: dict[str, str | list[str]] = {"text": text}
        found = {name: analyze(text) for name, analyze in analyzers.items()}
        record["none"] = found["none"]
        record.update({name: terms for name, terms in found.items() if terms != found["none"]})
        lines.append(json.dumps(record) + "\n")
    GOLDEN.write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} inputs, {GOLDEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
