# Run before anything else is installed: is what is asked for built? Install.cmake generates the list: muster_files_COMPONENT for
# each of muster_components. `make demo` builds the program alone, and an installation that lacks libraries would look whole.
set(missing "")
set(whole "")
foreach(component IN LISTS muster_components)
  set(here "")
  foreach(file IN LISTS muster_files_${component})
    if(NOT EXISTS ${file})
      cmake_path(GET file FILENAME name)
      list(APPEND here ${name})
    endif()
  endforeach()
  if(NOT here)
    list(APPEND whole ${component})
  elseif(NOT CMAKE_INSTALL_COMPONENT OR CMAKE_INSTALL_COMPONENT STREQUAL component)
    list(APPEND missing ${here})
  endif()
endforeach()
if(missing)
  list(JOIN missing ", " missing)
  set(text "nothing is installed, since not all of it is built: ${missing} would be missing\n"
    "hint: build the rest first:\n"
    "  cmake --build ${muster_build}                        everything\n"
    "  cmake --build ${muster_build} --target muster        the programs\n"
    "  cmake --build ${muster_build} --target libraries     the libraries\n")
  if(whole)
    list(JOIN whole ", " names)
    list(GET whole 0 first)
    list(APPEND text "or install what is built (${names}), one component at a time:\n"
      "  cmake --install ${muster_build} --component ${first} …\n")
  endif()
  list(JOIN text "" text)
  message(FATAL_ERROR "${text}")
endif()
