# muster_room(base)                         torch-free: no torch include path, so a slip does not compile
# muster_room(data TORCH NEEDS base)        a room over LibTorch
# muster_room(launch PRIVATE_HEADERS a.h)   headers that are not installed, since no user needs what they declare
#
# Makes the static library muster_<room> (alias muster::<room>) of muster/<room>/*.cpp; strategy folders are added by
# muster_entry_table. NEEDS lists the rooms that it may include; scripts/check_arrows.py holds the same arrows.
function(muster_room room)
  cmake_parse_arguments(ARG "TORCH" "" "NEEDS;LIBRARIES;PRIVATE_HEADERS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.cpp)
  add_library(muster_${room} STATIC ${sources})
  target_link_libraries(muster_${room} PRIVATE $<BUILD_INTERFACE:muster_compile> PUBLIC Threads::Threads ${ARG_LIBRARIES})
  foreach(other IN LISTS ARG_NEEDS)
    target_link_libraries(muster_${room} PUBLIC muster_${other})
  endforeach()
  set(kind TORCH_FREE)
  if(ARG_TORCH)
    target_link_libraries(muster_${room} PUBLIC muster::torch)
    set(kind TORCH)
  endif()
  set_target_properties(muster_${room} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  muster_publish(muster_${room} ${kind} NAME ${room} FOLDER ${room} PRIVATE_HEADERS ${ARG_PRIVATE_HEADERS})
endfunction()

# muster_precompiled_torch(muster_train)   for rooms most of whose sources include modules or process groups
#
# It halves what a source costs (10 s: 5 s). Sources still include what they use: the tidy preset builds without it.
function(muster_precompiled_torch target)
  if(NOT MUSTER_PCH)
    return()
  endif()
  if(NOT TARGET torch_pch)
    file(WRITE ${CMAKE_BINARY_DIR}/torch_pch/empty.cpp "")
    add_library(torch_pch STATIC ${CMAKE_BINARY_DIR}/torch_pch/empty.cpp)
    target_link_libraries(torch_pch PRIVATE muster_compile muster::torch)
    target_compile_options(torch_pch PRIVATE -fpch-preprocess)
    set_target_properties(torch_pch PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_precompile_headers(torch_pch PRIVATE <algorithm> <functional> <map> <memory> <string> <vector>
      <torch/csrc/distributed/c10d/ProcessGroup.hpp> <torch/nn/module.h>)
  endif()
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  target_precompile_headers(${target} REUSE_FROM torch_pch)
endfunction()

# muster_publish(target TORCH|TORCH_FREE NAME data FOLDER data PRIVATE_HEADERS a.h sub/b.h SKIP formats)
#
# Makes the alias muster::<NAME> and installs the target under that name, with the headers of its folder and of the
# strategy folders below it, except those named; paths are relative to FOLDER. `verify_headers` compiles each alone.
function(muster_publish target kind)
  cmake_parse_arguments(ARG "" "NAME;FOLDER" "PRIVATE_HEADERS" ${ARGN})
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FOLDER})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${folder}/*.h)
  foreach(header IN LISTS ARG_PRIVATE_HEADERS)
    if(NOT EXISTS ${folder}/${header})
      message(FATAL_ERROR "${target}: the private header ${header} is not in ${folder}")
    endif()
    list(REMOVE_ITEM headers ${folder}/${header})
  endforeach()
  if(NOT ARG_FOLDER MATCHES "/formats$")
    list(FILTER headers EXCLUDE REGEX "/formats/")  # a library of its own
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
  muster_verify_headers(${target} ${kind} ${headers})
endfunction()

# Compiles each public header by itself, and twice, as a source of its own. CMake's VERIFY_INTERFACE_HEADER_SETS does the
# same at the build's optimisation; here nothing is generated, since only the parse counts.
add_custom_target(verify_headers)
function(muster_verify_headers target kind)
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
  add_dependencies(verify_headers ${target}_headers)
  if(MUSTER_TESTS AND NOT MUSTER_SANITIZE AND kind STREQUAL TORCH_FREE)
    set_target_properties(${target}_headers PROPERTIES EXCLUDE_FROM_ALL OFF)
  endif()
endfunction()
