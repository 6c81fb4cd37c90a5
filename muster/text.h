// muster::text: words, vocabularies, batches of ids, and tokenizers of Hugging Face; without LibTorch.
// The room's door for users; within muster/, include what is needed.
#pragma once

#include "muster/text/batch/token_batch.h"
#include "muster/text/corpus/labelled_texts.h"
#include "muster/text/corpus/text_data.h"
#include "muster/text/corpus/text_encoder.h"
#include "muster/text/corpus/text_survey.h"
#include "muster/text/subword/encoding.h"
#include "muster/text/subword/tokenizer.h"
#include "muster/text/subword/train_bpe.h"
#include "muster/text/vocab/counter.h"
#include "muster/text/vocab/vocab.h"
#include "muster/text/vocab/vocab_file.h"
#include "muster/text/words/basic_english.h"
#include "muster/text/words/ngrams.h"
