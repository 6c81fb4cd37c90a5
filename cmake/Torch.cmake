# The only file that knows where LibTorch lives. Makes the imported target `muster_torch` (torch_cpu and c10, no toolkit).
#
# Taken in this order: MUSTER_TORCH_DIR, $MUSTER_TORCH_DIR, .deps/libtorch (the wheel that scripts/setup.sh unpacked), and any LibTorch or
# Python `torch` package on CMAKE_PREFIX_PATH. We do not use find_package(Torch): for a CUDA wheel it asks for a CUDA
# toolkit and then fails to link when toolkit and wheel differ.
set(MUSTER_TORCH_DIR "$ENV{MUSTER_TORCH_DIR}" CACHE PATH "LibTorch: the folder with include/ and lib/")
if(MUSTER_TORCH_DIR)
  set(torch_dir ${MUSTER_TORCH_DIR})
elseif(EXISTS ${CMAKE_SOURCE_DIR}/.deps/libtorch/torch/include/ATen)
  set(torch_dir ${CMAKE_SOURCE_DIR}/.deps/libtorch/torch)
else()
  find_path(torch_include ATen/ATen.h PATH_SUFFIXES include torch/include NO_CACHE)
  if(torch_include)
    get_filename_component(torch_dir ${torch_include} DIRECTORY)
  endif()
endif()
if(NOT EXISTS "${torch_dir}/include/ATen/ATen.h" OR NOT EXISTS "${torch_dir}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch was not found.\nhint: run scripts/setup.sh, or set MUSTER_TORCH_DIR or CMAKE_PREFIX_PATH to its folder")
endif()

set(torch_version "")
foreach(part MAJOR MINOR PATCH)
  file(STRINGS ${torch_dir}/include/torch/headeronly/version.h line REGEX "define TORCH_VERSION_${part} [0-9]+")
  string(REGEX MATCH "[0-9]+$" number "${line}")
  list(APPEND torch_version ${number})
endforeach()
list(JOIN torch_version "." torch_version)
message(STATUS "LibTorch ${torch_version}: ${torch_dir}")

add_library(muster_torch INTERFACE IMPORTED GLOBAL)
target_include_directories(muster_torch SYSTEM INTERFACE ${torch_dir}/include ${torch_dir}/include/torch/csrc/api/include)
target_compile_definitions(muster_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
# The wheel's CUDA halves are opened at run time if a device is there, so what they would need may stay undefined here.
target_link_options(muster_torch INTERFACE -Wl,--allow-shlib-undefined -Wl,-rpath,${torch_dir}/lib)
target_link_libraries(muster_torch INTERFACE ${torch_dir}/lib/libtorch_cpu.so ${torch_dir}/lib/libc10.so)

# An old ABI is possible only before 2.7 on Linux; the wheel says which in torch/version-independent config.
if(EXISTS ${torch_dir}/share/cmake/Torch/TorchConfig.cmake)
  file(STRINGS ${torch_dir}/share/cmake/Torch/TorchConfig.cmake abi_line REGEX "_GLIBCXX_USE_CXX11_ABI=0")
  if(abi_line)
    message(FATAL_ERROR "${torch_dir} was built with the old C++ ABI, which Muster does not support.\nhint: take a wheel of 2.11 or newer")
  endif()
endif()

# Signatures that changed between 2.11 and 2.15 are probed, not derived from version numbers. Each probe is used by the one
# shim header of the room that it names.
include(CheckCXXSourceCompiles)
block()
  set(CMAKE_REQUIRED_LIBRARIES muster_torch)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  check_cxx_source_compiles([[
    #include <torch/csrc/distributed/c10d/reducer.hpp>
    template <class... A> concept Ok = requires(A... a) { c10d::Reducer(a...); };
    static_assert(Ok<std::vector<at::Tensor>, std::vector<std::vector<size_t>>, c10::intrusive_ptr<c10d::ProcessGroup>, std::vector<bool>,
      int64_t, bool, bool, std::unordered_map<size_t, std::string>, int64_t, bool, bool, std::vector<int64_t>>);
    ]] MUSTER_REDUCER_HAS_BUCKET_LIST)
endblock()
if(MUSTER_REDUCER_HAS_BUCKET_LIST)
  target_compile_definitions(muster_torch INTERFACE MUSTER_REDUCER_HAS_BUCKET_LIST)
endif()

# Headers for the optional NCCL module: NCCL's and the CUDA runtime's, from the wheels or an installed toolkit. No library of
# either is linked.
find_path(MUSTER_NCCL_INCLUDE nccl.h HINTS ${torch_dir}/../nvidia/nccl/include /usr/local/cuda/include)
find_path(MUSTER_CUDA_INCLUDE cusparse.h HINTS ${torch_dir}/../nvidia/cu13/include /usr/local/cuda/include)
set(MUSTER_NCCL_INCLUDES "")
if(MUSTER_NCCL_INCLUDE AND MUSTER_CUDA_INCLUDE)
  set(MUSTER_NCCL_INCLUDES ${MUSTER_NCCL_INCLUDE} ${MUSTER_CUDA_INCLUDE})
  message(STATUS "NCCL module: yes (${MUSTER_NCCL_INCLUDE}, ${MUSTER_CUDA_INCLUDE})")
else()
  message(STATUS "NCCL module: no (nccl.h or the CUDA headers were not found)")
endif()
