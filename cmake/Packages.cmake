# muster_package(ZLIB DEBIAN zlib1g-dev)     find_package(... REQUIRED), now and again in the consumer of an installed Muster;
#                                            libmuster-dev then depends on that Debian package
# muster_package(nlohmann_json 3.11 DEBIAN nlohmann-json3-dev)
# muster_package(tomlplusplus TORCH)         for the torch rooms only: a torch-free consumer does not need it
#
# For every package whose target an installed room links, PUBLIC or PRIVATE: a static library hands both on to the link.
# Packages that only the program, the tests or the benchmarks use stay plain find_package.
macro(muster_package name)
  cmake_parse_arguments(MUSTER_PACKAGE "TORCH" "DEBIAN" "" ${ARGN})
  find_package(${name} ${MUSTER_PACKAGE_UNPARSED_ARGUMENTS} REQUIRED)
  set(muster_package_line ${name} ${MUSTER_PACKAGE_UNPARSED_ARGUMENTS})
  list(JOIN muster_package_line " " muster_package_line)
  if(MUSTER_PACKAGE_TORCH)
    set_property(GLOBAL APPEND_STRING PROPERTY MUSTER_TORCH_PACKAGES "  find_dependency(${muster_package_line})\n")
  else()
    set_property(GLOBAL APPEND_STRING PROPERTY MUSTER_PACKAGES "find_dependency(${muster_package_line})\n")
  endif()
  set_property(GLOBAL APPEND PROPERTY MUSTER_DEBIAN_PACKAGES ${MUSTER_PACKAGE_DEBIAN})
endmacro()
