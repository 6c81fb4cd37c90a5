# muster_room(base)                         torch-free: no torch include path, so a slip does not compile
# muster_room(launch AREAS io process job NEEDS base)
# muster_room(data TORCH AREAS … NEEDS base tensor)   a room over LibTorch
# muster_room(… PRIVATE_HEADERS job/* io/pipe.h)      headers that are not installed, since no user needs what they declare
#
# Makes the static library muster_<room> (alias muster::<room>) of the room's own sources, muster/<room>/*.cpp, and of its areas,
# muster/<room>/<area>/, folders below them included. Plural folders, of strategies, are added by muster_entry_table. NEEDS lists
# the rooms that it may include; scripts/check_arrows.py holds the same arrows, and those between areas.
function(muster_room room)
  cmake_parse_arguments(ARG "TORCH" "" "AREAS;NEEDS;LIBRARIES;PRIVATE_HEADERS" ${ARGN})
  set(target muster_${room})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.cpp)
  add_library(${target} STATIC ${sources})
  muster_unity(${target} ${room} ${sources})
  foreach(area IN LISTS ARG_AREAS)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/${area}/*.cpp)
    target_sources(${target} PRIVATE ${sources})
    muster_unity(${target} ${area} ${sources})
  endforeach()
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:muster_compile> PUBLIC Threads::Threads ${ARG_LIBRARIES})
  target_compile_features(${target} PUBLIC cxx_std_20)  # of those, too, who link an installed one
  foreach(other IN LISTS ARG_NEEDS)
    target_link_libraries(${target} PUBLIC muster_${other})
  endforeach()
  set(kind TORCH_FREE)
  if(ARG_TORCH)
    target_link_libraries(${target} PUBLIC muster::torch)
    set(kind TORCH)
  endif()
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  muster_publish(${target} ${kind} NAME ${room} FOLDER ${room} PRIVATE_HEADERS ${ARG_PRIVATE_HEADERS})
endfunction()

# muster_unity(target area a.cpp b.cpp …)   compiles the sources of an area together, MUSTER_UNITY_BATCH to a translation unit;
# areas that follow each other share one as far as they have room in it, unless the target is MUSTER_UNITY_BY_AREA
#
# What a source costs is mostly its headers: six sources of distributed/monitor take 15 s together and 50 s one by one. Names in
# unnamed namespaces must differ within a room, and within an area of tests. Off in the `dev` preset, where single files are
# edited; `make nightly` reads each source by itself, too, so that it includes what it uses. A source with
# SKIP_UNITY_BUILD_INCLUSION stays alone.
#
# CMake's own UNITY_BUILD would write the checkout's path into the units, which a compiler cache would then have to preprocess
# anew in each checkout.
function(muster_unity target area)
  list(LENGTH ARGN count)
  if(NOT MUSTER_UNITY OR count EQUAL 0)
    return()
  endif()
  get_target_property(groups ${target} MUSTER_UNITY_GROUPS)
  if(NOT groups)  # when all is said of this folder's sources
    cmake_language(EVAL CODE "cmake_language(DEFER CALL muster_write_units [[${target}]])")
  endif()
  math(EXPR batches "(${count} + ${MUSTER_UNITY_BATCH} - 1) / ${MUSTER_UNITY_BATCH}")
  set(index 0)
  foreach(source IN LISTS ARGN)
    math(EXPR batch "${index} * ${batches} / ${count} + 1")
    set_property(TARGET ${target} APPEND PROPERTY MUSTER_UNITY_GROUPS ${area}_${batch})
    set_property(TARGET ${target} APPEND PROPERTY MUSTER_UNITY_${area}_${batch} ${source})
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

# Writes what has come together, and begins anew. In the scope of muster_write_units.
macro(muster_write_unit)
  if(text)
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/unity/${target}/${first}.cpp)
    if(NOT first STREQUAL last)
      set(unit ${CMAKE_CURRENT_BINARY_DIR}/unity/${target}/${first}_to_${last}.cpp)
    endif()
    file(CONFIGURE OUTPUT ${unit} CONTENT "// Written by cmake/Room.cmake.\n${text}" @ONLY)
    list(APPEND sources ${unit})
  endif()
  set(first "")
  set(text "")
  set(count 0)
endmacro()

function(muster_write_units target)
  get_target_property(groups ${target} MUSTER_UNITY_GROUPS)
  list(REMOVE_DUPLICATES groups)
  get_target_property(sources ${target} SOURCES)
  get_target_property(by_area ${target} MUSTER_UNITY_BY_AREA)
  set(first "")
  set(last "")
  set(count 0)
  set(text "")
  foreach(group IN LISTS groups)
    get_target_property(members ${target} MUSTER_UNITY_${group})
    foreach(member IN LISTS members)
      get_source_file_property(alone ${member} SKIP_UNITY_BUILD_INCLUSION)
      if(alone)
        list(REMOVE_ITEM members ${member})
      endif()
    endforeach()
    list(LENGTH members more)
    math(EXPR together "${count} + ${more}")
    if(by_area OR together GREATER MUSTER_UNITY_BATCH)
      muster_write_unit()
    endif()
    foreach(member IN LISTS members)
      cmake_path(RELATIVE_PATH member BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE name)
      string(APPEND text "#include \"${name}\"\n")
      list(REMOVE_ITEM sources ${member})
      math(EXPR count "${count} + 1")
    endforeach()
    if(NOT first)
      set(first ${group})
    endif()
    set(last ${group})
  endforeach()
  muster_write_unit()
  set_target_properties(${target} PROPERTIES SOURCES "${sources}")
endfunction()

# muster_precompiled_torch(muster_train)   for rooms most of whose sources include modules or process groups
#
# It halves what a source costs (10 s: 5 s). Sources still include what they use: the tidy preset builds without it.
function(muster_precompiled_torch target)
  if(NOT MUSTER_PCH)
    return()
  endif()
  if(NOT TARGET torch_pch)
    muster_pch_library(torch_pch muster::torch)
    target_compile_options(torch_pch PRIVATE -fpch-preprocess)
    muster_pch_compiler(torch_pch)
    set_target_properties(torch_pch PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_precompile_headers(torch_pch PRIVATE <algorithm> <functional> <map> <memory> <string> <vector>
      <torch/csrc/distributed/c10d/ProcessGroup.hpp> <torch/nn/module.h>)
  endif()
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  target_precompile_headers(${target} REUSE_FROM torch_pch)
endfunction()

# muster_precompiled_std(muster_tune)   the standard library and JSON, for torch-free rooms under a sanitizer
#
# A sixth of the time of clang, which compiles those builds. Elsewhere sources of these rooms see what they include alone.
function(muster_precompiled_std target)
  if(NOT MUSTER_PCH OR NOT MUSTER_SANITIZE)
    return()
  endif()
  if(NOT TARGET std_pch)
    muster_pch_library(std_pch nlohmann_json::nlohmann_json)
    target_compile_options(std_pch PRIVATE -fPIC)
    muster_pch_compiler(std_pch)
    target_precompile_headers(std_pch PRIVATE <algorithm> <filesystem> <fstream> <functional> <map> <memory> <set> <sstream>
      <string> <thread> <vector> <nlohmann/json.hpp>)
  endif()
  target_compile_options(${target} PRIVATE -fPIC)  # as the header is
  target_precompile_headers(${target} REUSE_FROM std_pch)
endfunction()

# muster_publish(target TORCH|TORCH_FREE NAME data FOLDER data PRIVATE_HEADERS loader/loader_pool.h)
#
# Makes the alias muster::<NAME> and installs the target under that name, with the room's door, muster/<FOLDER>.h, and the headers
# of its folder and those below it, except those named; paths are relative to FOLDER and may be patterns (job/*.h).
# `verify_headers` reads each alone.
function(muster_publish target kind)
  cmake_parse_arguments(ARG "" "NAME;FOLDER" "PRIVATE_HEADERS" ${ARGN})
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FOLDER})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${folder}/*.h)
  foreach(pattern IN LISTS ARG_PRIVATE_HEADERS)
    file(GLOB private CONFIGURE_DEPENDS ${folder}/${pattern})
    if(NOT private)
      message(FATAL_ERROR "${target}: the private header ${pattern} is not in ${folder}")
    endif()
    list(REMOVE_ITEM headers ${private})
  endforeach()
  if(EXISTS ${folder}.h)
    list(APPEND headers ${folder}.h)
  endif()
  add_library(muster::${ARG_NAME} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${headers})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${ARG_NAME})
  set(export musterTargets)
  if(kind STREQUAL TORCH)
    set(export musterTorchTargets)
  endif()
  set_property(GLOBAL APPEND PROPERTY MUSTER_${kind}_ROOMS ${ARG_NAME})
  install(TARGETS ${target} EXPORT ${export} ARCHIVE COMPONENT dev FILE_SET HEADERS COMPONENT dev)
  muster_verify_headers(${target} ${headers})
endfunction()

# Reads each public header by itself, and twice, as a source of its own; not part of `all`, but of `make tidy` and
# `make nightly`. CMake's VERIFY_INTERFACE_HEADER_SETS does the same at the build's optimisation; here only the parse counts.
add_custom_target(verify_headers)
function(muster_verify_headers target)
  set(sources "")
  foreach(header IN LISTS ARGN)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE name)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.cpp)
    set(text "#include \"${name}\"\n#include \"${name}\"  // again: its guard\n")
    file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
    list(APPEND sources ${source})
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_library(${target}_headers OBJECT EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(${target}_headers PRIVATE ${target} muster_compile muster_quick_compile)
  target_compile_options(${target}_headers PRIVATE -fsyntax-only)
  add_dependencies(verify_headers ${target}_headers)
endfunction()
