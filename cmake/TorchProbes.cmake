# What this build needs to know of LibTorch beyond where it is. Consumers of an installed Muster need none of it.

# An old ABI is possible only before 2.7 on Linux; a LibTorch that was built by hand says so in its own configuration.
set(torch_config ${muster_torch_dir}/share/cmake/Torch/TorchConfig.cmake)
if(EXISTS ${torch_config})
  file(STRINGS ${torch_config} abi_line REGEX "_GLIBCXX_USE_CXX11_ABI=0")
  if(abi_line)
    message(FATAL_ERROR "${muster_torch_dir} was built with the old C++ ABI, which Muster does not support.\nhint: take a wheel of 2.11 or newer")
  endif()
endif()

# Headers for the optional NCCL module: NCCL's and the CUDA runtime's, from the wheels or an installed toolkit. No library of
# either is linked.
find_path(MUSTER_NCCL_INCLUDE nccl.h HINTS ${muster_torch_dir}/../nvidia/nccl/include /usr/local/cuda/include)
find_path(MUSTER_CUDA_INCLUDE cusparse.h HINTS ${muster_torch_dir}/../nvidia/cu13/include /usr/local/cuda/include)
set(MUSTER_NCCL_INCLUDES "")
if(MUSTER_NCCL_INCLUDE AND MUSTER_CUDA_INCLUDE)
  set(MUSTER_NCCL_INCLUDES ${MUSTER_NCCL_INCLUDE} ${MUSTER_CUDA_INCLUDE})
  message(STATUS "NCCL module: yes (${MUSTER_NCCL_INCLUDE}, ${MUSTER_CUDA_INCLUDE})")
else()
  message(STATUS "NCCL module: no (nccl.h or the CUDA headers were not found)")
endif()
