# What every user may rely on, however Headwise came in: called from the consumer projects.

if(NOT TARGET headwise::headwise)
  message(FATAL_ERROR "there is no target headwise::headwise")
endif()

foreach(property IN ITEMS INTERFACE_COMPILE_OPTIONS INTERFACE_LINK_OPTIONS
                          INTERFACE_COMPILE_DEFINITIONS)
  get_target_property(value headwise::headwise ${property})
  if(value)
    message(FATAL_ERROR "headwise leaks ${property} into its users: ${value}")
  endif()
endforeach()

foreach(developer_target IN ITEMS headwise_unit_test headwise_tour)
  if(TARGET ${developer_target})
    message(FATAL_ERROR "headwise builds its developer target ${developer_target} for its users")
  endif()
endforeach()
