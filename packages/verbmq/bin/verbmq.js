#!/usr/bin/env node
// A file of its own, so that package managers find the command before anything is built.
import '../dist/command/main.js';
