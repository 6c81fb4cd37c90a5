"""muster::text beside Python: torchtext's basic_english as published, and PyPI's `tokenizers`, over random texts of all planes of
Unicode. The tokenizers are trained here on words of a fixed seed; with MUSTER_TOKENIZERS=FILE:FILE:… those files, too (the real
ones of ../shared/research/data.md, section 6)."""

import json
import os
import random
import subprocess
import sys
import unicodedata
from collections import Counter, OrderedDict
from pathlib import Path

import pytest
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

sys.path.insert(0, str(Path(__file__).parent.parent / "golden" / "text"))
from torchtext_words import basic_english  # noqa: E402


def torchtext_vocab(counts, min_freq, specials, special_first):
    for token in specials:
        counts.pop(token, None)
    tokens = [token for token, count in counts.items() if count >= min_freq]
    return specials + tokens if special_first else tokens + specials


def torchtext_build(words, min_freq, specials, special_first, max_tokens):
    ordered = sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))
    if max_tokens is not None:
        ordered = ordered[:max_tokens - len(specials)]
    return torchtext_vocab(OrderedDict(ordered), min_freq, specials, special_first)


WORDS = ("the quick brown fox jumps over lazy dogs don't it's we'll they've I'm he'd won 12 345 2026 3.14 foo_bar café naïve Ünïcode "
         "straße ΑΣΣΟΣ ΣΑΣ İstanbul ǆ ﬁre e\u0301te\u0323\u0301 \u1100\u1161\u11a8 한국어 日本語 中文 русский язык العربية עברית हिन्दी ไทย 🙂 👩‍👩‍👧 "
         "<s> </s> [MASK] <mask> ##ing a\u0300\u0316b x² ½ Ⅷ ①").split()
PIECES = [" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u2003", "\x1c", "\x85", "<br />", "<br/>", '<b"r />', "'", '"', ".", ",", "(", ")", "!", "?",
          ";", ":", "-", "_", "▁", "Ġ", "\u200d", "\ufffd", "\x7f", "\u00ad", "Σ", "σ", "İ", "\u0307", "’s", "'S", "'re", "\u0344", "\u3000"]
# Up to where the versions of Unicode agree; decision 36 has the rest.
PLANES = [(0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0x97F), (0x1100, 0x11FF),
          (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2100, 0x24FF), (0x3040, 0x30FF), (0x4E00, 0x4E80), (0xAC00, 0xAC80), (0xF900, 0xFA6D),
          (0xFB00, 0xFB4F), (0xFF00, 0xFFEE), (0x1D400, 0x1D4FF), (0x1F600, 0x1F64F), (0x20000, 0x20040), (0x2F800, 0x2FA1D)]


def random_text(draw, most=14):
    parts = []
    for _ in range(draw.randrange(most)):
        kind = draw.randrange(5)
        if kind < 2:
            parts.append(draw.choice(WORDS))
        elif kind < 4:
            parts.append(draw.choice(PIECES))
        else:
            low, high = draw.choice(PLANES)
            parts.append("".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 4))))
        if draw.random() < 0.5:
            parts.append(" ")
    return "".join(parts)


@pytest.fixture
def twin(program):
    def ask(command, lines, *files):
        done = subprocess.run([program("text_twin"), command, *map(str, files)], input="".join(json.dumps(line) + "\n" for line in lines),
                              text=True, encoding="utf-8", capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.split("\n")[:-1]]

    return ask


def test_basic_english_on_random_texts(twin):
    draw = random.Random(1)
    texts = [random_text(draw, 30) for _ in range(20000)]
    for text, ours in zip(texts, twin("words", texts)):
        assert ours == basic_english(text), repr(text)


def test_lower_on_all_code_points(twin):
    # Of Python's version of Unicode, 14 for Python 3.11; ours is 15.0.
    points = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    # By themselves, behind a final sigma and before one; a blank ends what they may have to do with each other.
    texts = [" ".join(form.replace("@", c) for c in points[at:at + 4096])
             for form in ["@", "aΣ@", "@Σ.", "a@Σ"] for at in range(0, len(points), 4096)]
    for text, ours in zip(texts, twin("lower", texts)):
        wrong = [pair for pair in zip(text.split(" "), ours.split(" ")) if pair[0].lower() != pair[1]]
        assert not wrong and ours == text.lower(), wrong[:5]


def test_vocabularies_of_random_words(twin):
    draw = random.Random(2)
    cases = []
    for _ in range(500):
        words = [draw.choice(WORDS) for _ in range(draw.randrange(200))]
        specials = draw.sample(["<unk>", "<pad>", "the", "dogs"], draw.randrange(4))
        cases.append({"words": words, "min_freq": draw.randint(1, 5), "specials": specials, "special_first": draw.random() < 0.5,
                      "max_tokens": draw.choice([None, draw.randint(len(specials) + 1, 40)])})
    for case, ours in zip(cases, twin("vocab", cases)):
        words, most = case["words"], case["max_tokens"]
        rules = case["min_freq"], case["specials"], case["special_first"]
        assert ours["seen"] == torchtext_vocab(Counter(words), *rules)
        assert ours["frequent"] == torchtext_build(words, *rules, most)


def corpus(seed, count=400):
    draw = random.Random(seed)
    return [random_text(draw, 30) for _ in range(count)]


def trained(model, trainer, size=400, **parts):
    tokenizer = Tokenizer(model)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(corpus(3), trainer)
    return tokenizer


BYTES = dict(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def gpt2(prefix=False, trim=True, **more):
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<|end|>"], **BYTES)
    return trained(models.BPE(), trainer, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=prefix),
                   post_processor=processors.ByteLevel(trim_offsets=trim, add_prefix_space=prefix), decoder=decoders.ByteLevel(), **more)


def roberta():
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=SPECIALS, **BYTES)
    tokenizer = trained(models.BPE(unk_token="<unk>"), trainer, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True),
                        decoder=decoders.ByteLevel())
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=False, normalized=False, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return tokenizer


def bert(**options):
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False)
    tokenizer = trained(models.WordPiece(unk_token="[UNK]"), trainer, normalizer=normalizers.BertNormalizer(**options),
                        pre_tokenizer=pre_tokenizers.BertPreTokenizer(), decoder=decoders.WordPiece())
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def bert_processing():
    tokenizer = bert(lowercase=False)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def llama():
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<|begin|>"], **BYTES)
    tokenizer = trained(models.BPE(ignore_merges=True), trainer, decoder=decoders.ByteLevel(), pre_tokenizer=pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LLAMA), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin|> $A", pair="<|begin|> $A <|begin|>:1 $B:1", special_tokens=[("<|begin|>", 0)])])
    return tokenizer


def clip():
    pattern = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    trainer = trainers.BpeTrainer(vocab_size=900, end_of_word_suffix="</w>", special_tokens=["<end>"], **BYTES)
    return trained(models.BPE(unk_token="<end>", end_of_word_suffix="</w>"), trainer, decoder=decoders.ByteLevel(),
                   normalizer=normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
                   pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "removed", invert=True),
                                                          pre_tokenizers.ByteLevel(add_prefix_space=False)]))


def metaspace(scheme="first", fallback=True):
    specials = ["<unk>", *(f"<0x{b:02X}>" for b in range(256))] if fallback else ["<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=800, special_tokens=specials, show_progress=False, limit_alphabet=60)
    made = trained(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=fallback), trainer,
                   pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme=scheme))
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return made


def llama2():
    """Without a pre-tokenizer: the whole text is one word."""
    made = metaspace("always")
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.pre_tokenizer = None
    return made


def pieces(*splitters, **more):
    trainer = trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>"], show_progress=False, limit_alphabet=80)
    return trained(models.BPE(unk_token="<unk>"), trainer, pre_tokenizer=pre_tokenizers.Sequence(list(splitters)), **more)


def with_added():
    tokenizer = bert()
    tokenizer.add_tokens([AddedToken("Fox", normalized=True), AddedToken("lazy", single_word=True), AddedToken("café", lstrip=True, rstrip=True),
                          AddedToken("<mask>", normalized=False, lstrip=True), AddedToken("<s>", normalized=False, single_word=True)])
    return tokenizer


def truncated(make, **how):
    tokenizer = make()
    tokenizer.enable_truncation(**how)
    return tokenizer


def padded(make, **how):
    tokenizer = make()
    tokenizer.enable_padding(**how)
    return tokenizer


TOKENIZERS = {
    "gpt2": gpt2, "gpt2 with prefix": lambda: gpt2(prefix=True), "gpt2 untrimmed": lambda: gpt2(trim=False),
    "gpt2 nfkc": lambda: gpt2(normalizer=normalizers.NFKC()), "gpt2 nfc": lambda: gpt2(normalizer=normalizers.NFC()),
    "gpt2 nfd": lambda: gpt2(normalizer=normalizers.NFD()), "gpt2 nfkd": lambda: gpt2(normalizer=normalizers.NFKD()),
    "gpt2 strip": lambda: gpt2(normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()])),
    "roberta": roberta, "bert": bert, "bert cased": lambda: bert(lowercase=False), "bert accents": lambda: bert(strip_accents=False),
    "bert unclean": lambda: bert(clean_text=False, handle_chinese_chars=False), "bert processing": bert_processing, "llama": llama, "clip": clip,
    "metaspace": metaspace, "metaspace always": lambda: metaspace("always"), "metaspace never": lambda: metaspace("never"),
    "metaspace unknown": lambda: metaspace(fallback=False), "llama2": llama2, "with added": with_added,
    "whitespace": lambda: pieces(pre_tokenizers.Whitespace()),
    "digits": lambda: pieces(pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(True)),
    "digit runs": lambda: pieces(pre_tokenizers.Digits(False), pre_tokenizers.Punctuation("contiguous")),
    **{f"punctuation {how}": lambda how=how: pieces(pre_tokenizers.Punctuation(how)) for how in
       ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]},
    **{f"truncated {side} {stride}": lambda side=side, stride=stride: truncated(bert, max_length=7, stride=stride, direction=side)
       for side in ["left", "right"] for stride in [0, 1]},
    "truncated roberta": lambda: truncated(roberta, max_length=9, stride=1),
    "truncated gpt2": lambda: truncated(lambda: gpt2(prefix=True), max_length=5, direction="left"),
    "padded": lambda: padded(bert, length=20, pad_id=0, pad_token="[PAD]"),
    "padded left": lambda: padded(roberta, direction="left", pad_to_multiple_of=8, pad_id=1, pad_token="<pad>"),
}
for path in filter(None, os.environ.get("MUSTER_TOKENIZERS", "").split(":")):
    TOKENIZERS[path] = lambda path=path: Tokenizer.from_file(path)


def shown(encoding):
    return {"ids": encoding.ids, "type_ids": encoding.type_ids, "offsets": [list(span) for span in encoding.offsets],
            "words": [-1 if word is None else word for word in encoding.word_ids], "special": encoding.special_tokens_mask,
            "attention": encoding.attention_mask, "overflowing": [shown(part) for part in encoding.overflowing]}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_encodings_of_random_texts(twin, tmp_path, name, pytestconfig):
    # A cut text's parts hold each other's: they take a minute for all texts, which is for the nightly run.
    few = name.startswith("truncated") and pytestconfig.getoption("goldens") == "changed"
    tokenizer = TOKENIZERS[name]()
    file = tmp_path / "tokenizer.json"
    tokenizer.save(str(file))
    draw = random.Random(4)
    cases = [{"text": random_text(draw, 40), "special": draw.random() < 0.7} for _ in range(150 if few else 1500)]
    for case in cases[::5]:
        case["pair"] = random_text(draw, 20)
    ours = twin("encode", cases, file)
    for case, mine in zip(cases, ours):
        theirs = shown(tokenizer.encode(case["text"], case.get("pair"), add_special_tokens=case["special"]))
        alone = mine.pop("ids_alone", None)
        assert mine == theirs, case
        if alone is not None and not tokenizer.padding:
            assert alone == theirs["ids"]
    if tokenizer.decoder is not None:
        lists = [{"ids": case["ids"], "skip": i % 2 == 0} for i, case in enumerate(ours)]
        lists += [{"ids": draw.choices(range(tokenizer.get_vocab_size()), k=12), "skip": True} for _ in range(500)]
        for case, mine in zip(lists, twin("decode", lists, file)):
            assert mine == tokenizer.decode(case["ids"], skip_special_tokens=case["skip"]), case


@pytest.mark.parametrize("prefix, least, size", [(False, 0, 700), (True, 2, 1500), (False, 5, 400)])
def test_trained_merges(twin, prefix, least, size):
    texts = corpus(5, 300)
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer, theirs.decoder = bytes_, decoders.ByteLevel(add_prefix_space=prefix)
    theirs.post_processor = processors.ByteLevel(add_prefix_space=prefix)
    theirs.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, min_frequency=least, special_tokens=["<|end|>", "<pad>"], **BYTES))
    case = {"texts": texts, "vocab_size": size, "min_frequency": least, "special": ["<|end|>", "<pad>"], "prefix": prefix}
    ours = json.loads(twin("train", [case])[0])
    known = json.loads(theirs.to_str())
    assert ours["model"]["merges"] == known["model"]["merges"]
    assert ours["model"]["vocab"] == known["model"]["vocab"]
    Tokenizer.from_str(json.dumps(ours))


def test_trained_merges_of_a_real_text(twin):
    path = Path("/usr/share/common-licenses/GPL-3")
    texts = path.read_text().split("\n")
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=2500, **BYTES))
    ours = json.loads(twin("train", [{"texts": texts, "vocab_size": 2500, "min_frequency": 0, "special": [], "prefix": False}])[0])
    assert ours["model"]["merges"] == json.loads(theirs.to_str())["model"]["merges"]
