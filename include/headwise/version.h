// The one place that states the version; the build system reads it from here.
#pragma once

#define HEADWISE_VERSION_MAJOR 0
#define HEADWISE_VERSION_MINOR 1
#define HEADWISE_VERSION_PATCH 0
