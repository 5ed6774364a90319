// entry.js - the parts of Vega that the report page uses, under one global name.
//
// The interpreter evaluates Vega's expressions as data, so that the page's content
// policy may forbid eval.
//
// SPDX-License-Identifier: MIT
export { View, Warn, parse } from "vega";
export { expressionInterpreter } from "vega-interpreter";
export { compile } from "vega-lite";
