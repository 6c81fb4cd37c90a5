# CPack: three Debian packages. `muster` is the torch-free program and works alone; `muster-torch` adds the commands that need
# LibTorch, which is in no Debian and is not carried (440 MB): its script fetches it; `libmuster-dev` is for building on it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME muster)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Muster authors <muster@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_SOURCE_DIR}/build)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)  # one package for each component
set(CPACK_COMPONENTS_ALL program dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

get_property(muster_debian GLOBAL PROPERTY MUSTER_DEBIAN_PACKAGES)
list(JOIN muster_debian ", " muster_debian)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME muster)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS libcairo2)  # opened when a PNG is drawn
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "train one model on many devices
The program muster: starts programs on several ranks as torchrun does. What
needs LibTorch is in muster-torch.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libmuster-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)  # static libraries
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "muster (= ${PROJECT_VERSION}), ${muster_debian}")
set(CPACK_DEBIAN_DEV_DESCRIPTION "libraries, headers and CMake package of Muster
find_package(muster CONFIG). The rooms over LibTorch need one of the version
that they were built with; see docs/install.md.")

if(MUSTER_WITH_TORCH)
  list(APPEND CPACK_COMPONENTS_ALL torch_program)
  set(CPACK_DEBIAN_TORCH_PROGRAM_PACKAGE_NAME muster-torch)
  set(CPACK_DEBIAN_TORCH_PROGRAM_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${muster_torch_dir}/lib)  # in no package; looked at, not depended on
  set(CPACK_DEBIAN_TORCH_PROGRAM_PACKAGE_DEPENDS "muster (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_TORCH_PROGRAM_PACKAGE_SUGGESTS "python3-pip, unzip")
  set(CPACK_DEBIAN_TORCH_PROGRAM_DESCRIPTION "the commands of muster that need LibTorch
LibTorch ${muster_torch_built_with} itself is not in Debian and not in this package. Fetch it with
/usr/${muster_private_dir}/fetch_libtorch.sh (needs pip and unzip)
or link an existing one to /usr/${muster_private_dir}/libtorch/torch.")
endif()
include(CPack)
