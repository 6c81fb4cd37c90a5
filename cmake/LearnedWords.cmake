# cmake -DWORDS=words.txt -DOUT=x.cpp -P LearnedWords.cmake: what muster/diagnose/log/likeness.h calls kLearnedWords.
file(READ ${WORDS} text)
file(WRITE ${OUT} "// Written by cmake/LearnedWords.cmake from muster/diagnose/log/words.txt. Do not edit.
#include \"muster/diagnose/log/likeness.h\"

namespace muster::diagnose {

const std::string_view kLearnedWords = R\"MUSTER(${text})MUSTER\";

}  // namespace muster::diagnose
")
