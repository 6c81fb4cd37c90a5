# muster_protobuf(TARGET muster_track FOLDER track/proto)
#
# Compiles FOLDER/*.proto with protoc at build time and adds the result to the target. Sources of the target include them as
# "NAME.pb.h"; the include path is PRIVATE, so no header of ours can leak them. Linked from the archive of protobuf's lite
# runtime: the program has no shared library more to load, and nothing of it is exported for LibTorch's own copy to see.
set_property(GLOBAL APPEND PROPERTY MUSTER_DEBIAN_PACKAGES libprotobuf-dev)
find_program(PROTOC protoc REQUIRED)
find_path(PROTOBUF_INCLUDE google/protobuf/message_lite.h REQUIRED)
find_library(PROTOBUF_LITE_LIBRARY NAMES libprotobuf-lite.a protobuf-lite REQUIRED)

function(muster_protobuf)
  cmake_parse_arguments(ARG "" "TARGET;FOLDER" "" ${ARGN})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${ARG_TARGET}_proto)
  file(MAKE_DIRECTORY ${out})
  file(GLOB protos CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FOLDER}/*.proto)
  set(sources "")
  foreach(proto IN LISTS protos)
    get_filename_component(stem ${proto} NAME_WE)
    add_custom_command(OUTPUT ${out}/${stem}.pb.cc ${out}/${stem}.pb.h
      COMMAND ${PROTOC} --cpp_out=${out} --proto_path=${CMAKE_CURRENT_SOURCE_DIR}/${ARG_FOLDER} ${proto}
      DEPENDS ${proto} COMMENT "protoc ${ARG_FOLDER}/${stem}.proto")
    list(APPEND sources ${out}/${stem}.pb.cc ${out}/${stem}.pb.h)
  endforeach()
  # Not ours to warn about or to lint; -O1 because the work is in the runtime.
  add_library(${ARG_TARGET}_proto OBJECT ${sources})
  target_include_directories(${ARG_TARGET}_proto SYSTEM PUBLIC ${out} ${PROTOBUF_INCLUDE})
  target_compile_options(${ARG_TARGET}_proto PRIVATE -w)
  target_link_libraries(${ARG_TARGET}_proto PRIVATE muster_compile muster_glue_compile)
  set_target_properties(${ARG_TARGET}_proto PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_CLANG_TIDY "")
  add_dependencies(${ARG_TARGET} ${ARG_TARGET}_proto)
  target_sources(${ARG_TARGET} PRIVATE $<TARGET_OBJECTS:${ARG_TARGET}_proto>)
  target_include_directories(${ARG_TARGET} SYSTEM PRIVATE ${out} ${PROTOBUF_INCLUDE})
  target_link_libraries(${ARG_TARGET} PRIVATE ${PROTOBUF_LITE_LIBRARY})
endfunction()
