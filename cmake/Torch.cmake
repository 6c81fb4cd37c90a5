# The only file that knows where LibTorch lives; installed beside musterConfig.cmake, so that a consumer finds it by the
# same rules. Makes the imported target `muster::torch` (torch_cpu and c10, no toolkit).
#
# Taken in this order: MUSTER_TORCH_DIR, $MUSTER_TORCH_DIR, any LibTorch or Python `torch` package on CMAKE_PREFIX_PATH, and
# the folders of muster_torch_defaults (this tree: .deps/libtorch, which scripts/setup.sh unpacked; installed: beside the
# libraries, then the one that they were built with). muster_torch_required, "2.15" or empty, is the version that it must
# have. We do not use find_package(Torch): for a CUDA wheel it asks for a CUDA toolkit and then fails to link when toolkit
# and wheel differ. On failure sets muster_torch_error.
set(muster_torch_said "$ENV{MUSTER_TORCH_DIR}")
if(muster_torch_said)  # a relative one is meant from where the command was typed
  get_filename_component(muster_torch_said "${muster_torch_said}" ABSOLUTE BASE_DIR "$ENV{PWD}")
endif()
set(MUSTER_TORCH_DIR "${muster_torch_said}" CACHE PATH "LibTorch: the folder with include/ and lib/")
if(MUSTER_TORCH_DIR AND NOT IS_ABSOLUTE "${MUSTER_TORCH_DIR}")
  get_filename_component(muster_torch_absolute "${MUSTER_TORCH_DIR}" ABSOLUTE BASE_DIR "$ENV{PWD}")
  set(MUSTER_TORCH_DIR "${muster_torch_absolute}" CACHE PATH "LibTorch: the folder with include/ and lib/" FORCE)
endif()
if(muster_torch_said AND NOT muster_torch_said STREQUAL MUSTER_TORCH_DIR)
  message(WARNING "The variable MUSTER_TORCH_DIR says ${muster_torch_said}; this build folder was configured before, and takes "
    "LibTorch from ${MUSTER_TORCH_DIR}.\n-DMUSTER_TORCH_DIR=${muster_torch_said} changes that.")
endif()

# Sets `out` to the version of the LibTorch in `dir`, or to an empty string if there is none.
function(muster_torch_version dir out)
  set(version "")
  if(EXISTS ${dir}/include/ATen/ATen.h AND EXISTS ${dir}/lib/libtorch_cpu.so)
    set(header ${dir}/include/torch/headeronly/version.h)
    if(NOT EXISTS ${header})
      set(header ${dir}/include/torch/csrc/api/include/torch/version.h)  # before 2.9
    endif()
    foreach(part MAJOR MINOR PATCH)
      file(STRINGS ${header} line REGEX "define TORCH_VERSION_${part} [0-9]+")
      string(REGEX MATCH "[0-9]+$" number "${line}")
      list(APPEND version ${number})
    endforeach()
    list(JOIN version "." version)
  endif()
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

# Sets `out` to why the LibTorch in `dir` cannot be taken, or to an empty string.
function(muster_torch_fault dir out)
  muster_torch_version(${dir} version)
  set(fault "")
  if(NOT version)
    set(fault "no include/ATen/ATen.h and lib/libtorch_cpu.so there")
  elseif(version VERSION_LESS 2.11)
    set(fault "it is ${version}, and Muster needs 2.11 or newer")
  elseif(muster_torch_required AND NOT "${version}." MATCHES "^${muster_torch_required}\\.")
    # C++ classes of LibTorch change their layout from one minor version to the next.
    set(fault "it is ${version}, and this Muster was built with ${muster_torch_required}")
  endif()
  set(${out} "${fault}" PARENT_SCOPE)
endfunction()

block(SCOPE_FOR VARIABLES PROPAGATE muster_torch_dir muster_torch_error muster_torch_found_version)
  set(candidates ${MUSTER_TORCH_DIR})
  if(NOT candidates)
    string(REPLACE ":" ";" prefixes "$ENV{CMAKE_PREFIX_PATH}")
    foreach(prefix IN LISTS CMAKE_PREFIX_PATH prefixes)
      # LibTorch itself, a folder of Python packages, what torch.utils.cmake_prefix_path names, a virtual environment.
      file(GLOB in_venv ${prefix}/lib/python3*/site-packages/torch)
      string(REGEX REPLACE "/share/cmake/?$" "" prefix ${prefix})
      list(APPEND candidates ${prefix} ${prefix}/torch ${in_venv})
    endforeach()
    list(APPEND candidates ${muster_torch_defaults})
  endif()
  set(muster_torch_dir "")
  set(muster_torch_error "LibTorch was not found")
  foreach(dir IN LISTS candidates)
    muster_torch_fault(${dir} fault)
    if(NOT fault)
      muster_torch_version(${dir} muster_torch_found_version)
      set(muster_torch_dir ${dir})
      break()
    elseif(MUSTER_TORCH_DIR OR EXISTS ${dir}/include/ATen/ATen.h)
      string(APPEND muster_torch_error "\n  not ${dir}: ${fault}")
    endif()
  endforeach()
  if(muster_torch_dir)
    set(muster_torch_error "")
  else()
    string(APPEND muster_torch_error "\nhint: set MUSTER_TORCH_DIR to LibTorch's folder, the one with include/ and lib/")
  endif()
endblock()

if(muster_torch_dir AND NOT TARGET muster::torch)
  add_library(muster::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(muster::torch SYSTEM INTERFACE
    ${muster_torch_dir}/include ${muster_torch_dir}/include/torch/csrc/api/include)
  target_compile_definitions(muster::torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
  # The wheel's CUDA halves are opened at run time if a device is there, so what they would need may stay undefined here.
  # The run path is CMake's: it adds a library's folder to programs of a build tree and takes it off when they are installed.
  target_link_options(muster::torch INTERFACE -Wl,--allow-shlib-undefined)
  target_link_libraries(muster::torch INTERFACE ${muster_torch_dir}/lib/libtorch_cpu.so ${muster_torch_dir}/lib/libc10.so)
endif()
