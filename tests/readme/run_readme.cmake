# Takes the first program out of README.md and hands it to the find_package consumer.
set(way find_package)
set(name readme)
set(program ${build_dir}/consumer/readme/readme.cc)

execute_process(
  COMMAND ${python} ${CMAKE_CURRENT_LIST_DIR}/extract_program.py ${source_dir}/README.md ${program}
  RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "README.md: no program to compile, see above")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/../consumer/run_consumer.cmake)
