# cmake --install: programs, libraries, headers, the CMake package `muster`, documents. See docs/install.md.
#
# Components (also the Debian packages): program = bin/muster; torch_program = muster-torch, the NCCL module, the script that
# fetches LibTorch; dev = the rest. Each can be installed alone. All folders are relative, and nothing installed names the prefix: it can be moved.
include(CMakePackageConfigHelpers)
set(muster_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/muster)
set(muster_private_dir ${CMAKE_INSTALL_LIBDIR}/muster)  # libmuster_nccl.so, and a LibTorch put there by hand: libtorch/torch

install(TARGETS muster RUNTIME COMPONENT program)
set(muster_docs_dir ${CMAKE_BINARY_DIR}/installed_docs)  # with links that lead somewhere where they are installed
install(CODE "execute_process(COMMAND ${CMAKE_COMMAND} -DFROM=${CMAKE_SOURCE_DIR} -DTO=${muster_docs_dir}
  -P ${CMAKE_SOURCE_DIR}/cmake/InstallDocs.cmake COMMAND_ERROR_IS_FATAL ANY)" ALL_COMPONENTS)
install(FILES ${muster_docs_dir}/README.md ${muster_docs_dir}/CHANGELOG.md ${muster_docs_dir}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY share/muster/ DESTINATION ${CMAKE_INSTALL_DATADIR}/muster COMPONENT program FILES_MATCHING PATTERN "*.py")
install(DIRECTORY ${muster_docs_dir}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT dev)

# Completions and manual pages, written by the program of this build from its tables of options. Without LibTorch as well.
install(CODE "set(muster_words_dir \"${CMAKE_BINARY_DIR}/words\")
set(muster_program \"$<TARGET_FILE:muster>\")" COMPONENT program)
install(CODE [[
foreach(words "completion;bash;muster" "completion;zsh;_muster" "completion;fish;muster.fish")
  list(GET words 0 command)
  list(GET words 1 shell)
  list(GET words 2 name)
  file(MAKE_DIRECTORY ${muster_words_dir}/${shell})
  execute_process(COMMAND ${muster_program} ${command} ${shell} OUTPUT_FILE ${muster_words_dir}/${shell}/${name}
    COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${muster_program} man --output ${muster_words_dir}/man1 COMMAND_ERROR_IS_FATAL ANY ERROR_QUIET)
]] COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/words/bash/muster DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/words/zsh/_muster DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/words/fish/muster.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
  COMPONENT program)
install(DIRECTORY ${CMAKE_BINARY_DIR}/words/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program FILES_MATCHING PATTERN "*.1")

install(EXPORT musterTargets NAMESPACE muster:: DESTINATION ${muster_cmake_dir} COMPONENT dev)
set(muster_torch_built_with "")
set(muster_torch_built_dir "")
if(MUSTER_WITH_TORCH)
  install(EXPORT musterTorchTargets NAMESPACE muster:: DESTINATION ${muster_cmake_dir} COMPONENT dev)
  install(FILES cmake/Torch.cmake DESTINATION ${muster_cmake_dir} COMPONENT dev)
  install(PROGRAMS scripts/fetch_libtorch.sh DESTINATION ${muster_private_dir} COMPONENT torch_program)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" muster_torch_built_with ${muster_torch_found_version})
  # First a LibTorch beside the libraries, then the one of this build.
  set(muster_rpath $ORIGIN/../${muster_private_dir} $ORIGIN/../${muster_private_dir}/libtorch/torch/lib)
  if(MUSTER_REMEMBER_TORCH)
    file(REAL_PATH ${muster_torch_dir} muster_torch_built_dir)
    list(APPEND muster_rpath ${muster_torch_built_dir}/lib)
  endif()
  set_target_properties(muster-torch PROPERTIES INSTALL_RPATH "${muster_rpath}")
  install(TARGETS muster-torch RUNTIME COMPONENT torch_program)
  if(TARGET muster_nccl)
    install(TARGETS muster_nccl LIBRARY DESTINATION ${muster_private_dir} COMPONENT torch_program)
  endif()
endif()

# What each component has of what is built: check_built.cmake refuses an installation that would lack some of it.
get_property(rooms GLOBAL PROPERTY MUSTER_TORCH_FREE_ROOMS)
get_property(torch_rooms GLOBAL PROPERTY MUSTER_TORCH_ROOMS)
add_custom_target(libraries)
set(check_built "set(muster_build [==[${CMAKE_BINARY_DIR}]==])\nset(muster_components program dev)\n")
string(APPEND check_built "set(muster_files_program [==[$<TARGET_FILE:muster>]==])\nset(muster_files_dev \"\")\n")
foreach(room IN LISTS rooms torch_rooms)
  add_dependencies(libraries muster_${room})
  string(APPEND check_built "list(APPEND muster_files_dev [==[$<TARGET_FILE:muster_${room}>]==])\n")
endforeach()
if(MUSTER_WITH_TORCH)
  string(APPEND check_built "list(APPEND muster_components torch_program)\n"
    "set(muster_files_torch_program [==[$<TARGET_FILE:muster-torch>]==])\n")
  if(TARGET muster_nccl)
    string(APPEND check_built "list(APPEND muster_files_torch_program [==[$<TARGET_FILE:muster_nccl>]==])\n")
  endif()
endif()
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/check_built.cmake
  CONTENT "${check_built}include([==[${CMAKE_SOURCE_DIR}/cmake/CheckBuilt.cmake]==])\n")

get_property(muster_rooms GLOBAL PROPERTY MUSTER_TORCH_FREE_ROOMS)
get_property(muster_torch_rooms GLOBAL PROPERTY MUSTER_TORCH_ROOMS)
get_property(muster_packages GLOBAL PROPERTY MUSTER_PACKAGES)
get_property(muster_torch_packages GLOBAL PROPERTY MUSTER_TORCH_PACKAGES)
configure_package_config_file(cmake/musterConfig.cmake.in ${CMAKE_BINARY_DIR}/musterConfig.cmake
  INSTALL_DESTINATION ${muster_cmake_dir} PATH_VARS muster_private_dir NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may change what users call.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/musterConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/musterConfig.cmake ${CMAKE_BINARY_DIR}/musterConfigVersion.cmake cmake/FindDeflate.cmake cmake/FindPCRE2.cmake
  cmake/FindUtf8proc.cmake
  DESTINATION ${muster_cmake_dir} COMPONENT dev)
