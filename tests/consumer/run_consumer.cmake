# Configures, builds and runs tests/consumer/<way> in an empty folder; add_subdirectory is only compiled.
#   cmake -D source_dir= -D build_dir= -D version= -D generator= -D compiler= -D way= [-D name=]
#         [-D program=] -P run_consumer.cmake
# name: of the folder, if not the way's; program: the source to build, if not consumer.cc.

if(NOT name)
  set(name ${way})
endif()
if(NOT program)
  set(program ${CMAKE_CURRENT_LIST_DIR}/consumer.cc)
  if(way STREQUAL "components")
    set(program ${CMAKE_CURRENT_LIST_DIR}/components.cc)
  endif()
endif()
set(work_dir ${build_dir}/consumer/${name})
file(REMOVE_RECURSE ${work_dir}/prefix ${work_dir}/build)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "consumer ${name}: failed (${result}): ${command}")
  endif()
endfunction()

set(arguments
    -G ${generator}
    -D CMAKE_CXX_COMPILER=${compiler}
    -D program=${program}
    -D headwise_version=${version})
if(way MATCHES "^(find_package|components)$")  # both use what is installed
  run(${CMAKE_COMMAND} --install ${build_dir} --prefix ${work_dir}/prefix)
  list(APPEND arguments -D CMAKE_BUILD_TYPE=Release -D CMAKE_PREFIX_PATH=${work_dir}/prefix)
else()
  # Compiles the whole library again: without optimisation, to be quick.
  list(APPEND arguments -D CMAKE_BUILD_TYPE=Debug -D headwise_source_dir=${source_dir})
endif()

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/${way} -B ${work_dir}/build ${arguments})
run(${CMAKE_COMMAND} --build ${work_dir}/build --target consumer)
if(NOT way STREQUAL "add_subdirectory")
  run(${work_dir}/build/consumer)
endif()
