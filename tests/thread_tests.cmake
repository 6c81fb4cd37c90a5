# MUSTER_THREAD_TESTS_ONLY, the build of `make tsan`: the tests in which threads of one process meet, and no other. Rooms are
# built as far as these need them.
muster_room_tests(launch/launchers LIBRARIES muster::launch)
muster_room_tests(tune/run LIBRARIES muster::tune)
muster_room_tests(tune/trial LIBRARIES muster::tune)

# The two parts of a program's screen that write from a thread of their own are in it.
muster_room_tests(program/screen LIBRARIES muster::program)

# Files of images and shards are read by several threads.
muster_room_tests(formats/image ONLY folder_survey_test.cpp LIBRARIES muster::formats)
muster_room_tests(formats/tar ONLY tar_images_test.cpp LIBRARIES muster::formats)

# One thread of `muster gpu`. Its source is built, and not the program.
add_library(muster_status_thread STATIC ${CMAKE_SOURCE_DIR}/cli/gpu/status_thread.cpp)
target_link_libraries(muster_status_thread PRIVATE muster_compile PUBLIC muster::diagnose)
target_include_directories(muster_status_thread PUBLIC ${CMAKE_SOURCE_DIR})
muster_room_tests(cli/gpu ONLY status_thread_test.cpp LIBRARIES muster_status_thread)

if(MUSTER_WITH_TORCH)
  muster_room_tests(tensor TORCH LIBRARIES muster::tensor SHARDS 1)
  muster_room_tests(data/loader TORCH LIBRARIES muster::data SHARDS 2)
  # Gloo's own threads are not instrumented. NcclModule needs a library beside its tests, and starts no thread. ZeroMemory counts
  # bytes, and looks for no race.
  muster_room_tests(distributed TORCH LIBRARIES muster::distributed muster::testing FILTER "-*gloo*:ProcessGroup*:NcclModule*" SHARDS 6)
  set(parallel LIBRARIES muster::parallel muster::testing FILTER "-*gloo*:*ZeroMemory*")
  if(MUSTER_ALL_SANITIZED_TESTS)
    muster_room_tests(parallel TORCH ${parallel} SHARDS 6)
    # What asks the driver, which may never answer, on a thread of its own: one thread, and a room to build.
    muster_room_tests(memory/report TORCH ONLY explain_test.cpp LIBRARIES muster::memory muster::testing
      FILTER Explain.TheDriverNames*)
    add_dependencies(memory_report_tests muster_fake_devices)
  else()  # the areas that start threads themselves; the others' ranks meet in the group alone
    foreach(area pipeline replicas threads)
      muster_room_tests(parallel/${area} TORCH ${parallel} SHARDS 2)
    endforeach()
  endif()
  # The writer of checkpoints. Its area needs none of the rooms that training needs.
  file(GLOB checkpoints CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/muster/train/checkpoints/*.cpp)
  add_library(muster_checkpoints STATIC ${checkpoints})
  muster_unity(muster_checkpoints checkpoints ${checkpoints})
  target_link_libraries(muster_checkpoints PRIVATE muster_compile PUBLIC muster::distributed muster::formats muster::tensor)
  target_include_directories(muster_checkpoints PUBLIC ${CMAKE_SOURCE_DIR})
  muster_room_tests(train/checkpoints TORCH ONLY checkpoint_writer_test.cpp LIBRARIES muster_checkpoints)
endif()
