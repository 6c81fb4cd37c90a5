# muster_entry_table(TARGET t FOLDER distributed/backends TYPE BackendEntry NAMESPACE muster::distributed FUNCTION backends HEADER h)
#
# Adds FOLDER/*.cpp to the target and writes a source that defines `EntryTable<TYPE> NAMESPACE::FUNCTION()` over the
# constants `<file name>_entry` of the folder. See Note [Generated tables] in muster/base/entry.h.
function(muster_entry_table)
  cmake_parse_arguments(ARG "" "TARGET;FOLDER;TYPE;NAMESPACE;FUNCTION;HEADER" "" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FOLDER}/*.cpp)
  set(externs "")
  set(addresses "")
  foreach(source IN LISTS sources)
    get_filename_component(stem ${source} NAME_WE)
    string(APPEND externs "extern const ${ARG_TYPE} ${stem}_entry;\n")
    string(APPEND addresses "    &${stem}_entry,\n")
  endforeach()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${ARG_TARGET}_${ARG_FUNCTION}_table.cpp)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
// Written by cmake/Entries.cmake from the files of @ARG_FOLDER@/. Do not edit.
// The entry type stays incomplete: pointers are all that a table holds, and its header may be slow to compile.
#include "muster/base/entry.h"

namespace @ARG_NAMESPACE@ {

struct @ARG_TYPE@;
EntryTable<@ARG_TYPE@> @ARG_FUNCTION@();  // declared for users in @ARG_HEADER@

@externs@
namespace {
const @ARG_TYPE@* const kEntries[] = {
@addresses@};
}  // namespace

EntryTable<@ARG_TYPE@> @ARG_FUNCTION@() { return EntryTable<@ARG_TYPE@>(kEntries); }

}  // namespace @ARG_NAMESPACE@
]])
  set_source_files_properties(${out} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)  # to read one costs more than the table
  target_sources(${ARG_TARGET} PRIVATE ${sources} ${out})
  get_filename_component(area ${ARG_FOLDER} NAME)
  muster_unity(${ARG_TARGET} ${area} ${sources})
endfunction()
