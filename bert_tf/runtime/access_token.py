"""The token that authenticates clients to a server, and workers to a job."""

from bert_tf.errors import UserError
from bert_tf.runtime import files

VARIABLE = "BERT_TF_TOKEN"  # environment variable


def read(path: str | None, variable: str | None) -> str:
    """The token from the first line of a file, or the value of an environment variable; "" without either.

    Raises UserError for a file without a token, and for characters not allowed in a header.
    """
    if path is None and variable is None:
        return ""
    try:
        if path is None:
            token = str(variable).strip()
        else:
            with files.open_text(path) as file:
                token = file.readline().strip()
    except OSError as error:
        raise UserError(f"The token file {path} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        token = ""
    if not token or not all("!" <= character <= "~" for character in token):
        source = path or VARIABLE
        raise UserError(f"{source} contains no token; expected printable ASCII characters without spaces.")
    return token
