{
  "variables": {
    # `npm_config_verbmq_sanitize=1` or `-- -Dverbmq_sanitize=1`: AddressSanitizer and UndefinedBehaviorSanitizer.
    "verbmq_sanitize%": "0",
    # Where the headers of node-addon-api are. scripts/install.mjs tells; whoever runs node-gyp by hand has `node` in the PATH.
    "node_addon_api%": ""
  },
  "targets": [
    {
      "target_name": "verbmq_native",
      "sources": [
        "cpp/verbs/cm_id.cc",
        "cpp/verbs/completion_queue.cc",
        "cpp/verbs/device_context.cc",
        "cpp/verbs/device_events.cc",
        "cpp/verbs/mapping_guard.cc",
        "cpp/verbs/protection_domain.cc",
        "cpp/verbs/shared_receive_queue.cc",
        "cpp/verbs/verbs_error.cc",
        "cpp/verbs/verbs_library.cc",
        "cpp/engine/connection.cc",
        "cpp/engine/connection_sending.cc",
        "cpp/engine/device_resources.cc",
        "cpp/engine/engine.cc",
        "cpp/engine/engine_completions.cc",
        "cpp/engine/engine_connections.cc",
        "cpp/engine/engine_devices.cc",
        "cpp/engine/engine_ends.cc",
        "cpp/engine/engine_pools.cc",
        "cpp/engine/engine_submissions.cc",
        "cpp/engine/huge_pages.cc",
        "cpp/engine/large_messages.cc",
        "cpp/engine/operation_queue.cc",
        "cpp/engine/probe.cc",
        "cpp/engine/receive_pool.cc",
        "cpp/engine/region_table.cc",
        "cpp/engine/socket_address.cc",
        "cpp/engine/wire.cc",
        "cpp/napi/addon.cc",
        "cpp/napi/driver_threads.cc",
        "cpp/napi/engine_memory.cc",
        "cpp/napi/engine_object.cc",
        "cpp/napi/loop_driver.cc",
        "cpp/napi/probe_function.cc",
        "cpp/napi/runtime.cc",
        "cpp/napi/values.cc"
      ],
      "include_dirs": ["cpp"],
      # A worker thread that is being terminated refuses calls into JavaScript, also that which throws: without the last of these, node-addon-api
      # then ends the process.
      "defines": [
        "NAPI_VERSION=8",
        "NAPI_CPP_EXCEPTIONS",
        "NODE_ADDON_API_DISABLE_DEPRECATED",
        "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"
      ],
      "cflags!": ["-fno-exceptions"],
      "cflags_cc!": ["-fno-exceptions", "-std=gnu++17", "-std=gnu++20", "-fno-rtti"],
      "cflags_cc": ["-std=c++17", "-fexceptions", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"],
      "libraries": ["-ldl"],
      # A worker thread unloads what it alone has loaded, and threads for drivers may outlive it.
      "ldflags": ["-Wl,-z,nodelete"],
      "conditions": [
        ["node_addon_api!=''", {
          "include_dirs": ["<(node_addon_api)"]
        }, {
          "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"]
        }],
        ["verbmq_sanitize==1", {
          "cflags_cc": ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined", "-g1", "-O1"],
          "ldflags": ["-fsanitize=address,undefined"]
        }]
      ]
    }
  ]
}
