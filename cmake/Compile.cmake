# Compiler settings for every target of ours: warnings, ccache, sanitizers.
add_library(muster_compile INTERFACE)
target_compile_options(muster_compile INTERFACE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # g++ 12 sees overlap in std::string concatenation that is not there (GCC bug 105329)
# What LibTorch 2.15 has virtual, and 2.11 has not at all, cannot be marked as overriding.
target_compile_options(muster_compile INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-inconsistent-missing-override>)
# g++ looks for garbage a tenth of its time, to hold 1.2 GB instead of 1.3.
target_compile_options(muster_compile INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>)
target_compile_features(muster_compile INTERFACE cxx_std_20)
# __FILE__ is "tests/…", so that messages and objects are the same in every checkout, and ccache takes those of another one: every
# gtest macro has a __FILE__. The cache tells the compiler folders below that of the build as `..`.
target_compile_options(muster_compile INTERFACE -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/= -fmacro-prefix-map=../=)

if(MUSTER_SANITIZE)
  target_compile_options(muster_compile INTERFACE -fsanitize=${MUSTER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(muster_compile INTERFACE -fsanitize=${MUSTER_SANITIZE})
endif()

# Settings that let ccache hit with a precompiled header and from a second checkout (time_macros, base folder, no hash of
# the working folder). `cmake -E env` puts them in front of each compiler call, so no shell set-up is needed.
#
# Clang's precompiled headers hold the checkout's path, so that of another checkout would never be the same. There ccache takes the
# sum beside a header for the header; CMake would also name the header's source, by a path that ccache does not make relative.
set(ccache_settings CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
  CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=10G CCACHE_PCH_EXTSUM=1)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
endif()
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${ccache_settings} ${CCACHE_PROGRAM})
endif()

# muster_test_compiler(optim_tests)   a target with a precompiled header, or that header's, by MUSTER_TEST_COMPILER where it is set
#
# Half of a build's time is the tests' sources, of which clang takes 0.6 of g++'s. What users link is g++'s, as Debian's libraries are.
# A launcher, since CMake knows one compiler per language; both find cmake_pch.hxx.gch beside the header that is included.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT MUSTER_SANITIZE)
  find_program(MUSTER_TEST_COMPILER clang++-14 DOC "Compiles tests and examples; empty: CMAKE_CXX_COMPILER")
endif()
function(muster_test_compiler target)
  if(NOT MUSTER_TEST_COMPILER)
    target_compile_options(${target} PRIVATE -fpch-preprocess)
    return()
  endif()
  target_compile_options(${target} PRIVATE -Wno-unknown-warning-option -Wno-inconsistent-missing-override)  # some are g++'s own
  set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
    "${CMAKE_SOURCE_DIR}/scripts/compile.sh;--by;${MUSTER_TEST_COMPILER};${CMAKE_CXX_COMPILER_LAUNCHER};--")
endfunction()

# muster_pch_library(torch_pch muster::torch …)   a library of nothing, which others take its precompiled header from, and what it links
function(muster_pch_library target)
  file(WRITE ${CMAKE_BINARY_DIR}/${target}/empty.cpp "")
  add_library(${target} STATIC ${CMAKE_BINARY_DIR}/${target}/empty.cpp)
  target_link_libraries(${target} PRIVATE muster_compile ${ARGN})
endfunction()

# muster_pch_compiler(torch_pch)   for the target whose header is precompiled, behind muster_test_compiler where that is said, too:
# scripts/compile.sh leaves its sum beside it
function(muster_pch_compiler target)
  get_target_property(launcher ${target} CXX_COMPILER_LAUNCHER)
  if(launcher MATCHES ";--by;")
    # A fourth of a source's time is templates that the headers use themselves. CMake says so to a clang of its own.
    target_compile_options(${target} PRIVATE -fpch-instantiate-templates)
  elseif(CCACHE_PROGRAM)
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_SOURCE_DIR}/scripts/compile.sh;${CMAKE_CXX_COMPILER_LAUNCHER};--")
  endif()
endfunction()

# -O2: -O3 costs compile time, and the work is in LibTorch's kernels.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# For tests and examples: what they time is never their own code, and it halves their compile time; under ASan gmock at -O2 would
# cost 35 s a file. Debug keeps its own level.
add_library(muster_quick_compile INTERFACE)
target_compile_options(muster_quick_compile INTERFACE $<$<CONFIG:Release>:-O0>)
if(MUSTER_SANITIZE)
  target_compile_options(muster_quick_compile INTERFACE -O0)
endif()
if(MUSTER_SANITIZE MATCHES address)
  # A third of what a test's source costs: a null pointer that a test reads through ends it in any case, x86 reads what is not
  # aligned, and what inputs reach in the tests themselves no fuzzer asks.
  target_compile_options(muster_quick_compile INTERFACE -fno-sanitize=null,alignment)
  if(MUSTER_SANITIZE MATCHES fuzzer)
    target_compile_options(muster_quick_compile INTERFACE -fno-sanitize=fuzzer-no-link)
  endif()
endif()

# For code that is glue: around LibTorch's kernels, and the command line (16 sources: 45 s of CPU instead of 53).
add_library(muster_glue_compile INTERFACE)
target_compile_options(muster_glue_compile INTERFACE $<$<CONFIG:Release>:-O1>)
