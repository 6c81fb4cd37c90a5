# cmake -DFOLDER=examples/new -DOUT=x.cpp -P ProjectTexts.cmake: the files of `muster new`, as a source that holds their texts.
set(rows "")
function(add_text task path file)
  file(READ ${FOLDER}/${file} text)
  string(LENGTH "${text}" bytes)
  if(bytes EQUAL 0)
    message(FATAL_ERROR "${FOLDER}/${file} is empty")
  endif()
  set(rows "${rows}    {\"${task}\", \"${path}\", R\"MUSTER(${text})MUSTER\"},\n" PARENT_SCOPE)
endfunction()

add_text("" CMakeLists.txt project/CMakeLists.txt)
add_text("" README.md project/README.md)
add_text("" .gitignore project/gitignore)
foreach(task classify regress own)
  add_text(${task} main.cpp ${task}.cpp)
endforeach()
file(WRITE ${OUT} "// Written by cmake/ProjectTexts.cmake from the files of examples/new. Do not edit.
#include \"cli/project/new_project.h\"

namespace muster::cli {
namespace {

const ProjectText kTexts[] = {
${rows}};

}  // namespace

std::span<const ProjectText> project_texts() { return kTexts; }

}  // namespace muster::cli
")
