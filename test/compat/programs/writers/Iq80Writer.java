// Varve: a key-value storage engine. MIT licence, see LICENSE.
//
// Iq80Writer DIRECTORY COUNT [close]: writes a database with the pure Java
// LevelDB (org.iq80.leveldb, or its successor io.github.pcmind) and prints its
// contents. Without `close` the process ends as if it were killed.

import java.io.File;
import java.nio.charset.StandardCharsets;
import org.iq80.leveldb.CompressionType;
import org.iq80.leveldb.DB;
import org.iq80.leveldb.DBIterator;
import org.iq80.leveldb.Options;
import org.iq80.leveldb.impl.Iq80DBFactory;

public class Iq80Writer {
  public static void main(String[] arguments) throws Exception {
    Options options = new Options();
    options.createIfMissing(true).blockSize(512).writeBufferSize(16384);
    options.compressionType(CompressionType.SNAPPY);
    DB db = Iq80DBFactory.factory.open(new File(arguments[0]), options);
    int count = Integer.parseInt(arguments[1]);
    db.put(new byte[] {0}, bytes("zero"));
    db.put(new byte[] {-1, -1}, bytes("last"));
    db.put(bytes("empty"), bytes(""));
    for (int i = 0; i < count; ++i) {
      long k = i * 7919L % count;
      db.put(key(k), bytes(String.format("value%050d", k)));
      if (i % 5 == 4) db.delete(key(i / 5 * 7919L % count));
    }
    StringBuilder out = new StringBuilder();
    DBIterator iterator = db.iterator();
    for (iterator.seekToFirst(); iterator.hasNext();) {
      var entry = iterator.next();
      hex(out, entry.getKey());
      out.append(" => ");
      hex(out, entry.getValue());
      out.append('\n');
    }
    iterator.close();
    System.out.print(out);
    System.out.flush();
    if (arguments.length > 2) db.close();
    Runtime.getRuntime().halt(0);
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static byte[] key(long k) {
    return bytes(String.format("key%08d", k));
  }

  static void hex(StringBuilder out, byte[] bytes) {
    for (byte b : bytes) out.append(String.format("%02x", b));
  }
}
