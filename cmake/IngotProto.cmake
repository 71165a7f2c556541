# Messages and services are compiled separately, so that everything but the services builds without gRPC.
find_program(INGOT_PROTOC protoc REQUIRED)
find_program(INGOT_GRPC_PLUGIN grpc_cpp_plugin)
set(INGOT_GEN ${CMAKE_BINARY_DIR}/gen)
file(MAKE_DIRECTORY ${INGOT_GEN}/proto)

# ingot_proto_messages(OUT_VAR name...): compiles proto/NAME.proto to NAME.pb.{h,cc}
function(ingot_generate_messages out)
  set(sources)
  foreach(name ${ARGN})
    add_custom_command(
      OUTPUT ${INGOT_GEN}/proto/${name}.pb.cc ${INGOT_GEN}/proto/${name}.pb.h
      COMMAND ${INGOT_PROTOC} -I${CMAKE_SOURCE_DIR} --cpp_out=${INGOT_GEN} ${CMAKE_SOURCE_DIR}/proto/${name}.proto
      DEPENDS ${CMAKE_SOURCE_DIR}/proto/${name}.proto COMMENT "protoc ${name}.proto")
    list(APPEND sources ${INGOT_GEN}/proto/${name}.pb.cc)
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

function(ingot_generate_services out)
  set(sources)
  foreach(name ${ARGN})
    add_custom_command(
      OUTPUT ${INGOT_GEN}/proto/${name}.grpc.pb.cc ${INGOT_GEN}/proto/${name}.grpc.pb.h
      COMMAND ${INGOT_PROTOC} -I${CMAKE_SOURCE_DIR} --grpc_out=${INGOT_GEN}
              --plugin=protoc-gen-grpc=${INGOT_GRPC_PLUGIN} ${CMAKE_SOURCE_DIR}/proto/${name}.proto
      DEPENDS ${CMAKE_SOURCE_DIR}/proto/${name}.proto COMMENT "grpc ${name}.proto")
    list(APPEND sources ${INGOT_GEN}/proto/${name}.grpc.pb.cc)
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()
