"""The bridge to Lucene and Anserini: Java in this process, started when it is needed."""
