package io.twinbox.routes;

import java.util.Map;
import org.apache.camel.CamelContext;
import org.apache.camel.spi.Resource;
import org.apache.camel.spi.ResourceLoader;
import org.apache.camel.support.ResourceHelper;

/**
 * Gives Camel each statement as it was when it was checked, and everything else as it stands. Camel
 * reads a statement's file when it builds or starts its step: by then somebody may be writing it,
 * or an edit that was not taken over may stand in it.
 */
final class CheckedStatements implements ResourceLoader {

  private final ResourceLoader files;
  private volatile Map<String, String> texts;

  CheckedStatements(ResourceLoader files, Map<String, String> texts) {
    this.files = files;
    this.texts = texts;
  }

  /**
   * @param checked texts by reference, such as {@code file:topics/invoices/post.sql}; null where
   *     there is none
   */
  void use(Map<String, String> checked) {
    texts = checked;
  }

  @Override
  public Resource resolveResource(String uri) {
    String text = texts.get(uri);
    return text == null ? files.resolveResource(uri) : ResourceHelper.fromString(uri, text);
  }

  @Override
  public CamelContext getCamelContext() {
    return files.getCamelContext();
  }

  @Override
  public void setCamelContext(CamelContext camelContext) {
    files.setCamelContext(camelContext);
  }
}
