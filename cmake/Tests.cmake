# muster_room_tests(base)             one executable base_tests of the *_test.cpp in tests/base and the folders below it, which
#                                     mirror the areas; each TEST is a CTest of its own
# muster_room_tests(process/tune)     process_tune_tests
# muster_room_tests(x ONLY a_test.cpp)  of these sources of the folder alone
# muster_room_tests(x FILTER -*Slow*)  only the TESTs that pass GoogleTest's filter
# muster_room_tests(x SHARDS 8)       8 CTests, each an eighth of the TESTs in one process, for those that start slowly (LibTorch:
#                                     0.25 s). A TEST that falls is named in the output. MUSTER_SHARDS=OFF, as in the `dev`
#                                     preset: one CTest for each
# muster_room_tests(x SANITIZED_SHARDS 8)  the same in a build with sanitizers alone, where a process starts slowly, too (0.1 s)
# muster_room_tests(x COST 40 TIMEOUT 900)  CTest starts what costs most first; seconds that a TEST may take, else 300
# muster_room_tests(x FIRST *Slow*)   CTest starts these before all else, so that none is alone at the end
# muster_room_tests(gpu RUN_IF has_gpu)  built, and no CTest unless that variable is true
# muster_room_tests(parallel TORCH)   with the precompiled header that all torch tests share
find_package(GTest REQUIRED)
include(GoogleTest)
option(MUSTER_SHARDS "Let the tests of a torch room share a few processes" ON)

# One precompiled header for the tests of all torch rooms and for the examples, which include torch/torch.h as users do.
if(MUSTER_WITH_TORCH AND MUSTER_PCH)
  muster_pch_library(torch_test_pch muster_quick_compile muster_torch GTest::gmock
    nlohmann_json::nlohmann_json)
  muster_test_compiler(torch_test_pch)
  muster_pch_compiler(torch_test_pch)
  target_precompile_headers(torch_test_pch PRIVATE <filesystem> <fstream> <functional> <sstream> <thread> <torch/torch.h>
    <torch/csrc/distributed/c10d/ProcessGroup.hpp> <gtest/gtest.h> <gmock/gmock.h> <nlohmann/json.hpp>)
endif()

# One for those of torch-free rooms.
if(MUSTER_PCH)
  muster_pch_library(test_pch muster_quick_compile GTest::gmock nlohmann_json::nlohmann_json)
  muster_test_compiler(test_pch)
  muster_pch_compiler(test_pch)
  target_precompile_headers(test_pch PRIVATE <filesystem> <fstream> <functional> <sstream> <gmock/gmock.h> <gtest/gtest.h>
    <nlohmann/json.hpp>)
endif()

# The one object that knows where checkout and build lie: all others are the same in each checkout, for a compiler cache.
add_library(muster_test_paths STATIC ${CMAKE_SOURCE_DIR}/tests/support/paths.cpp)
target_link_libraries(muster_test_paths PRIVATE muster_compile muster_quick_compile)
target_include_directories(muster_test_paths PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(muster_test_paths PRIVATE
  MUSTER_TEST_BIN_DIR="${CMAKE_BINARY_DIR}/bin" MUSTER_SOURCE_DIR="${CMAKE_SOURCE_DIR}")

# First among a test program's objects: tests of studies take a third of the time.
add_library(muster_fast_json OBJECT ${CMAKE_SOURCE_DIR}/tests/support/fast_json.cpp)
target_link_libraries(muster_fast_json PRIVATE muster_compile nlohmann_json::nlohmann_json)
target_include_directories(muster_fast_json PRIVATE ${CMAKE_SOURCE_DIR})

function(muster_use_test_pch target)
  if(MUSTER_PCH)
    muster_test_compiler(${target})
    target_precompile_headers(${target} REUSE_FROM test_pch)
  endif()
endfunction()

function(muster_use_torch_pch target)
  if(MUSTER_PCH)
    target_link_libraries(${target} PRIVATE muster_torch)
    muster_test_compiler(${target})
    target_compile_definitions(${target} PRIVATE GTEST_HAS_PTHREAD=1)  # as the header was compiled
    target_precompile_headers(${target} REUSE_FROM torch_test_pch)
  else()
    target_compile_options(${target} PRIVATE -include torch/torch.h)  # what the shared header would have brought
  endif()
endfunction()

function(muster_room_tests folder)
  cmake_parse_arguments(ARG "TORCH" "FILTER;SHARDS;SANITIZED_SHARDS;FIRST;COST;TIMEOUT;RUN_IF" "LIBRARIES;ONLY" ${ARGN})
  if(ARG_ONLY)
    list(TRANSFORM ARG_ONLY PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE sources)
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*_test.cpp)
  endif()
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" room ${folder})
  add_executable(${room}_tests $<TARGET_OBJECTS:muster_fast_json> ${sources})
  set(areas "")
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH area)
    cmake_path(GET area FILENAME area)
    list(APPEND areas ${area})
    list(APPEND sources_of_${area} ${source})
  endforeach()
  list(REMOVE_DUPLICATES areas)
  set_target_properties(${room}_tests PROPERTIES MUSTER_UNITY_BY_AREA ON)  # a test's names are short
  foreach(area IN LISTS areas)
    muster_unity(${room}_tests ${area} ${sources_of_${area}})
  endforeach()
  target_link_libraries(${room}_tests PRIVATE muster_compile muster_quick_compile ${ARG_LIBRARIES} muster_test_paths
    GTest::gmock GTest::gtest_main)
  target_include_directories(${room}_tests PRIVATE ${CMAKE_SOURCE_DIR})
  if(ARG_TORCH)
    muster_use_torch_pch(${room}_tests)
  else()
    muster_use_test_pch(${room}_tests)
  endif()
  if(ARG_RUN_IF AND NOT ${ARG_RUN_IF})
    return()
  endif()
  set(variables "")
  if(MUSTER_SANITIZE MATCHES address AND folder MATCHES "^process/")
    # clang 14's LeakSanitizer hangs now and then at the end of a program that blocks signals (its tracer waits for a stop that
    # does not come; 8 of 480 runs of `muster run`). Leaks are looked for where the same code runs inside a test, and in cli_tests.
    set(variables "ASAN_OPTIONS=detect_leaks=0")
  endif()
  if(MUSTER_SANITIZE MATCHES thread)
    # LibTorch is not instrumented: what it synchronises inside is invisible to ThreadSanitizer, and so is OpenMP.
    set(variables "TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp;OMP_NUM_THREADS=1")
  endif()
  set(shard_timeout 900)
  if(ARG_SANITIZED_SHARDS AND MUSTER_SANITIZE)
    set(ARG_SHARDS ${ARG_SANITIZED_SHARDS})
    set(shard_timeout 1800)
  endif()
  if(ARG_SHARDS AND MUSTER_SHARDS)
    set(shared "*")  # an empty filter would run none
    if(ARG_FILTER)
      set(shared "${ARG_FILTER}")
    endif()
    foreach(shard RANGE 1 ${ARG_SHARDS})
      math(EXPR index "${shard} - 1")
      set(name ${room}.${shard}_of_${ARG_SHARDS})
      # Not --gtest_brief: a TEST that crashes or hangs is named by the line of its start alone.
      add_test(NAME ${name} COMMAND ${room}_tests "--gtest_filter=${shared}")
      set_tests_properties(${name} PROPERTIES TIMEOUT ${shard_timeout} COST 10 LABELS ${room}
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index};${variables}")
    endforeach()
    return()
  endif()
  # gtest_discover_tests takes lists apart: one label (`ctest -L process` finds process_train, too), one variable. Values in the
  # names of tests would be addresses where a struct has no printer, so that ctest knows no test again.
  set(properties LABELS ${room})
  if(variables)
    list(GET variables 0 variable)
    list(APPEND properties ENVIRONMENT ${variable})
  endif()
  if(ARG_TIMEOUT)
    list(APPEND properties TIMEOUT ${ARG_TIMEOUT})
  elseif(MUSTER_SANITIZE)
    list(APPEND properties TIMEOUT 900)  # what takes 5 s takes minutes there, and more beside other work
  else()
    list(APPEND properties TIMEOUT 300)
  endif()
  if(ARG_FIRST)
    gtest_discover_tests(${room}_tests DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES TEST_FILTER "${ARG_FIRST}"
      PROPERTIES ${properties} COST 100)
    set(ARG_FILTER "-${ARG_FIRST}")
  endif()
  if(ARG_COST)
    list(APPEND properties COST ${ARG_COST})
  endif()
  gtest_discover_tests(${room}_tests DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES TEST_FILTER "${ARG_FILTER}"
    PROPERTIES ${properties})
endfunction()
