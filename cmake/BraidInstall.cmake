# Rules for `cmake --install`, and the CMake package: users call find_package(Braid) and link the
# target Braid::braid.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Braid)
get_property(libraries GLOBAL PROPERTY BRAID_LIBRARIES)

# The only target that users link: all libraries, in the order required for static linking.
add_library(braid_all INTERFACE)
set_target_properties(braid_all PROPERTIES EXPORT_NAME braid)
target_link_libraries(braid_all INTERFACE ${libraries})

install(TARGETS braid RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS braid_all ${libraries} EXPORT BraidTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The public headers include no other headers of Braid. Users include "api/session.h" and add
# include/braid to the include path.
file(GLOB public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/api/*.h)
install(FILES ${public_headers} DESTINATION include/braid/api)
install(EXPORT BraidTargets NAMESPACE Braid:: DESTINATION ${package_folder})
configure_package_config_file(cmake/BraidConfig.cmake.in BraidConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(BraidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/BraidConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/BraidConfigVersion.cmake cmake/BraidDependencies.cmake
        DESTINATION ${package_folder})
