// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// For mocha's --require: skips the tests that the file SUITE_LIST has.
const fs = require("fs");

const patterns = fs
  .readFileSync(process.env.SUITE_LIST, "utf8")
  .split("\n")
  .filter((line) => line.startsWith("  "))
  .map((line) => new RegExp(`^(?:${line.trim()})$`));

exports.mochaHooks = {
  beforeEach() {
    const name = this.currentTest.fullTitle();
    if (patterns.some((pattern) => pattern.test(name))) this.skip();
  },
};
