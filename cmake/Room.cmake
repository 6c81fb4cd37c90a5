# muster_room(base)                         torch-free: no torch include path, so a slip does not compile
# muster_room(data TORCH NEEDS base)        a room over LibTorch
#
# Makes the static library muster_<room> (alias muster::<room>) of muster/<room>/*.cpp; strategy folders are added by
# muster_entry_table. NEEDS lists the rooms that it may include; scripts/check_arrows.py holds the same arrows.
function(muster_room room)
  cmake_parse_arguments(ARG "TORCH" "" "NEEDS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/*.cpp)
  add_library(muster_${room} STATIC ${sources})
  add_library(muster::${room} ALIAS muster_${room})
  target_include_directories(muster_${room} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(muster_${room} PRIVATE muster_compile PUBLIC Threads::Threads ${ARG_LIBRARIES})
  foreach(other IN LISTS ARG_NEEDS)
    target_link_libraries(muster_${room} PUBLIC muster_${other})
  endforeach()
  if(ARG_TORCH)
    target_link_libraries(muster_${room} PUBLIC muster_torch)
  endif()
  set_target_properties(muster_${room} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()
