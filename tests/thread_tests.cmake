# MUSTER_THREAD_TESTS_ONLY, the build of `make tsan`: the tests in which threads of one process meet, and no other. Rooms are
# built as far as these need them.
muster_room_tests(launch/launchers LIBRARIES muster::launch)
muster_room_tests(tune/run LIBRARIES muster::tune)
muster_room_tests(tune/trial LIBRARIES muster::tune)

# The two parts of a program's screen that write from a thread of their own are in it.
muster_room_tests(program/screen LIBRARIES muster::program)

if(MUSTER_WITH_TORCH)
  muster_room_tests(tensor TORCH LIBRARIES muster::tensor SHARDS 1)
  muster_room_tests(data/loader TORCH LIBRARIES muster::data SHARDS 2)
  # Gloo's own threads are not instrumented. NcclModule needs a library beside its tests, and starts no thread. ZeroMemory counts
  # bytes, and looks for no race.
  muster_room_tests(distributed TORCH LIBRARIES muster::distributed muster::testing FILTER "-*gloo*:ProcessGroup*:NcclModule*" SHARDS 6)
  set(parallel LIBRARIES muster::parallel muster::testing FILTER "-*gloo*:*ZeroMemory*")
  if(MUSTER_ALL_THREAD_TESTS)
    muster_room_tests(parallel TORCH ${parallel} SHARDS 6)
  else()  # the areas that start threads themselves, and DDP; the others' ranks meet in the group alone
    foreach(area ddp pipeline replicas threads)
      muster_room_tests(parallel/${area} TORCH ${parallel} SHARDS 2)
    endforeach()
  endif()
endif()
