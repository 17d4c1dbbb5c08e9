include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/headwise)

install(TARGETS headwise EXPORT headwise-targets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/headwise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT headwise-targets NAMESPACE headwise:: DESTINATION ${package_dir})

# The program, and the libraries behind it as components: find_package(headwise COMPONENTS io layouts).
if(HEADWISE_BUILD_TOOL)
  install(TARGETS headwise_tool)
  set(completion ${PROJECT_BINARY_DIR}/completion)  # where each shell looks, under its name for it
  install(FILES ${completion}.bash RENAME headwise
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${completion}.zsh RENAME _headwise
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${completion}.fish RENAME headwise.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  foreach(component IN ITEMS io layouts analyze view)
    install(TARGETS headwise_${component} EXPORT headwise-${component}-targets
            INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(EXPORT headwise-${component}-targets NAMESPACE headwise:: DESTINATION ${package_dir})
  endforeach()
endif()

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/headwise-config.cmake.in
  ${PROJECT_BINARY_DIR}/headwise-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 every minor version may change the interface.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/headwise-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/headwise-config.cmake
              ${PROJECT_BINARY_DIR}/headwise-config-version.cmake
        DESTINATION ${package_dir})
