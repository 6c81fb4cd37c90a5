"""Writes golden.json beside this file: words by torchtext's published rule, and what PyPI's `tokenizers` makes of some texts.

Run it with the peers' Python: .venv/bin/python tests/golden/text/make_golden.py
"""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from torchtext_words import basic_english

TEXTS = ["", "Hello, world! It's 3.14 (or so)?", "You can now install TorchText using pip!", "a<br />b <br/> <b\"r /> c;d:e",
         "ΑΣΣΟΣ ΣΑΣ. Σ İstanbul STRASSE ß", "tab\tline\nsep\x1cnel\x85nbsp\u00a0em\u2003end", "\"quoted\" 'single' don't", "日本語 中文, 한국어!",
         "Cafe\u0301 naïve e\u0323\u0301 \u1100\u1161\u11a8", "the the  the   quick\n\n fox  ", "🙂 👩‍👩‍👧 x² ½", "control\x00\x7f\u00ad\ufffd end"]
CORPUS = ["the quick brown fox jumps over the lazy dog", "the dog and the fox don't care; they're quick", "naïve café, 日本語 is 3.14"] * 3


def trained(model, trainer, **parts):
    tokenizer = Tokenizer(model)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def gpt2():
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    return trained(models.BPE(), trainer, normalizer=normalizers.NFC(), pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
                   post_processor=processors.ByteLevel(trim_offsets=True, add_prefix_space=False), decoder=decoders.ByteLevel())


def bert():
    # Not trained: the trainer's ids are others each time.
    words = "the quick brown fox jump dog don is caf na hello world you can install torch ##text ##s ##e ##ive ##ing or so using".split()
    letters = [chr(c) for c in range(0x21, 0x7F) if not chr(c).isupper()] + ["日", "本", "σ", "ς", "α", "ß", "½", "²"]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words, *letters, *(f"##{letter}" for letter in letters if letter.isalnum())]
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.enable_truncation(10, stride=2)
    tokenizer.enable_padding(pad_token="[PAD]", pad_to_multiple_of=4)
    return tokenizer


def encoded(tokenizer, text):
    encoding = tokenizer.encode(text)
    return {"text": text, "ids": encoding.ids, "offsets": [list(span) for span in encoding.offsets],
            "words": [-1 if word is None else word for word in encoding.word_ids], "attention": encoding.attention_mask,
            "parts": [part.ids for part in encoding.overflowing], "decoded": tokenizer.decode(encoding.ids)}


def main():
    golden = {"words": [{"text": text, "words": basic_english(text)} for text in TEXTS], "tokenizers": []}
    for make in [gpt2, bert]:
        tokenizer = make()
        golden["tokenizers"].append({"name": make.__name__, "file": json.loads(tokenizer.to_str()),
                                     "encodings": [encoded(tokenizer, text) for text in TEXTS]})
    parts = ",\n".join(f'{json.dumps(key)}: [\n{",".join(chr(10) + json.dumps(case) for case in cases)}\n]' for key, cases in golden.items())
    Path(__file__).with_name("golden.json").write_text("{" + parts + "}\n")


if __name__ == "__main__":
    main()
